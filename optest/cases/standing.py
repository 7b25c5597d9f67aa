"""What stands at the end of a case as it stood at its start: the session's orders and the test."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from optest.guards import clocks, patched, traced
from optest.guards.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optest.cases.case import Case
    from optest.cases.session import Session

_ORDERS = ("mode", "guards", "tamper", "judged_by", "expecting_failure")


class Standing:
    """The session's orders, and the functions that a test calls of the harness and the references.

    Made at the start of a case. What it finds at the end it writes into the case itself: a
    candidate may have replaced the methods through which findings are told.
    """

    def __init__(self, session: Session, function: Callable[..., Any]) -> None:
        self._session = session
        self._orders = {name: getattr(session, name) for name in _ORDERS}
        self._globals = getattr(function, "__globals__", {})
        self._functions = {
            name: value for name, value in self._globals.items() if _is_watched(name, value)
        }

    def judge(self, case: Case) -> None:
        """Add to the case's findings and failures what has changed; the orders are put back."""
        for finding in self._findings():
            if finding not in case.findings:
                case.findings.append(finding)
                case.failures.append(str(finding))

    def _findings(self) -> Iterator[Finding]:
        for name, held in self._orders.items():
            if getattr(self._session, name) != held:
                setattr(self._session, name, held)
                yield Finding(
                    "process state",
                    f"the session's {name} was changed while the case ran",
                    "what was to be looked at was not",
                )
        for name, held in self._functions.items():
            if self._globals.get(name) is not held:
                yield clocks.replaced(f"the test's {name}", self._globals.get(name))
        found = patched.everything()
        if found is not None:
            yield found


def _is_watched(name: str, value: object) -> bool:
    if not isinstance(value, types.FunctionType):
        return False
    room = (value.__module__ or "").partition(".")[0]
    return room in ("optest", "aiter_ref") or traced.is_reference_name(name)
