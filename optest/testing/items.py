"""pytest items for the cases of op tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from optest.cases import session as sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optest.cases.session import Session


class CaseFailed(Exception):  # noqa: N818 - what a report shows; not an error of this library
    """A case did not pass; the text says why and how to run it alone."""


class CaseItem(pytest.Item):
    """One case of a ``@benchmark`` function."""

    function: Callable[..., Any]
    arguments: dict[str, Any]
    argv: Sequence[str]

    @classmethod
    def make(
        cls, parent: pytest.Module, case: tuple[str, Callable[..., Any], dict[str, Any]], argv: Sequence[str]
    ) -> CaseItem:
        """An item named as the case's id is, without its file."""
        identity, function, arguments = case
        item: CaseItem = cls.from_parent(parent, name=identity.partition("::")[2])
        item.function, item.arguments, item.argv = function, arguments, argv
        return item

    def runtest(self) -> None:
        """Run the case; its failed checks and exceptions fail the item."""
        session = sessions.current()
        before = len(session.failures)
        self.function(**self.arguments)
        raise_failures(session, before, [str(self.path), *self.argv])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ANN401
        """The reasons alone: a traceback of the harness says nothing about the kernel."""
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

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
                raise CaseFailed(f"main() exited {stop.code} ({self.reason})") from None
        finally:
            sys.argv = argv
        raise_failures(session, failed, [str(self.path), *self.argv])
        if session.ran == ran:
            raise CaseFailed(f"no case ran; collection had said: {self.reason}")

    repr_failure = CaseItem.repr_failure

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
    """Fail the running item for what the session recorded since then.

    Raises:
        CaseFailed: with each reason, and the command that runs the case alone.
    """
    new = session.failures[since:]
    if not new:
        return
    lines = []
    for failure in new:
        lines.append(f"{failure.status.upper()} {failure.case_id}\n  {failure.reason}")
        if "::" in failure.case_id:
            lines.append(f"  alone: {sessions.rerun_command(failure.case_id, argv)}")
    raise CaseFailed("\n".join(lines))
