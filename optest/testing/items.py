"""pytest items for the cases of op tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from optest.cases import session as sessions
from optest.cases.case import call_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optest.cases.session import Collected, Session


class CaseItem(pytest.Item):
    """One case of a ``@benchmark`` function."""

    function: Callable[..., Any]
    arguments: dict[str, Any]
    argv: Sequence[str]

    @classmethod
    def make(cls, parent: pytest.Module, case: Collected, argv: Sequence[str]) -> CaseItem:
        """An item named as the case's id is, without its file."""
        item: CaseItem = cls.from_parent(parent, name=case.id.partition("::")[2])
        item.function, item.arguments, item.argv = case.function, case.arguments, argv
        return item

    def runtest(self) -> None:
        """Run the case; its failed checks and exceptions fail the item."""
        session = sessions.current()
        before = len(session.failures)
        call = call_arguments(self.function, self.arguments)
        self.function(*call.args, **call.kwargs)
        raise_failures(session, before, [str(self.path), *self.argv])

    def reportinfo(self) -> tuple[Any, int, str]:
        """File, line and name for reports."""
        code = getattr(self.function, "__wrapped__", self.function).__code__
        return self.path, code.co_firstlineno - 1, self.name


class WholeItem(pytest.Item):
    """A script whose ``main()`` cannot bear collection, run whole as one item."""

    argv: Sequence[str]
    reason: str

    @classmethod
    def make(cls, parent: pytest.Module, reason: str, argv: Sequence[str]) -> WholeItem:
        """An item for the whole file; ``reason`` says why it is not split."""
        item: WholeItem = cls.from_parent(parent, name="main")
        item.reason, item.argv = reason, argv
        return item

    def runtest(self) -> None:
        """Run ``main()``; it must run at least one case and none may fail."""
        assert isinstance(self.parent, pytest.Module)
        session = sessions.current()
        failed, ran = len(session.failures), session.ran
        argv, sys.argv = sys.argv, [str(self.path), *self.argv]
        try:
            self.parent.obj.main()
        except SystemExit as stop:
            if stop.code not in (None, 0):
                pytest.fail(f"main() exited {stop.code} ({self.reason})", pytrace=False)
        finally:
            sys.argv = argv
        raise_failures(session, failed, [str(self.path), *self.argv])
        if session.ran == ran:
            pytest.fail(f"no case ran; collection had said: {self.reason}", pytrace=False)

    def reportinfo(self) -> tuple[Any, int, str]:
        """File and name for reports."""
        return self.path, 0, f"{self.path.name}::main ({self.reason})"


class GatedItem(pytest.Item):
    """A file that does not run on this arch: a skip with its own words as the reason."""

    reason: str

    @classmethod
    def make(cls, parent: pytest.Module, reason: str) -> GatedItem:
        """An item that skips."""
        item: GatedItem = cls.from_parent(parent, name="gated")
        item.reason = reason
        return item

    def runtest(self) -> None:
        """Skip."""
        pytest.skip(self.reason)

    def reportinfo(self) -> tuple[Any, int, str]:
        """File and name for reports."""
        return self.path, 0, f"{self.path.name}::gated"


def raise_failures(session: Session, since: int, argv: Sequence[str]) -> None:
    """Fail the running item with each reason recorded since then, and how to run it alone."""
    new = session.failures[since:]
    if not new:
        return
    lines = []
    for failure in new:
        lines.append(f"{failure.status.upper()} {failure.case_id}\n  {failure.reason}")
        if "::" in failure.case_id:
            lines.append(f"  alone: {sessions.rerun_command(failure.case_id, argv)}")
    pytest.fail("\n".join(lines), pytrace=False)
