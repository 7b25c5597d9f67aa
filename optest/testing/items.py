"""pytest items for the cases of op tests."""

from __future__ import annotations

import contextlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

import pytest

from optest.cases import collecting
from optest.cases import session as sessions
from optest.cases.row import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from optest.cases.session import Collected, Session


_COLLECT = "OPTEST_MODE=collect"
_NOT_ON_LIST = "not on OPTEST_ONLY"


class CaseItem(pytest.Item):
    """One case of a ``@benchmark`` function."""

    case: Collected
    argv: Sequence[str]

    @classmethod
    def make(cls, parent: pytest.Module, case: Collected, argv: Sequence[str]) -> CaseItem:
        """An item named as the case's id is, without its file."""
        item: CaseItem = cls.from_parent(parent, name=case.id.partition("::")[2])
        item.case, item.argv = case, argv
        return item

    def runtest(self) -> None:
        """Run the case; its failed checks and exceptions fail the item."""
        session = sessions.current()
        with failures_raised(session, [str(self.path), *self.argv]):
            skip_unless_ran(collecting.run(session, self.case))

    def reportinfo(self) -> tuple[Any, int, str]:
        """File, line and name for reports."""
        code = inspect.unwrap(self.case.function).__code__
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
        ran = session.ran
        try:
            with failures_raised(session, [str(self.path), *self.argv]):
                self._run_main(self.parent.obj)
        except Exception:
            # Whatever main() says about rows without results, there was nothing to run.
            if session.ran == ran:
                _skip_where_filtered(session)
            raise
        if session.ran == ran:
            _skip_where_filtered(session)
            pytest.fail(f"no case ran; collection had said: {self.reason}", pytrace=False)

    def _run_main(self, module: ModuleType) -> None:
        argv, sys.argv = sys.argv, [str(self.path), *self.argv]
        try:
            module.main()
        except SystemExit as stop:
            if stop.code not in (None, 0):
                pytest.fail(f"main() exited {stop.code} ({self.reason})", pytrace=False)
        finally:
            sys.argv = argv

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


def _skip_where_filtered(session: Session) -> None:
    if session.mode == "collect":
        pytest.skip(_COLLECT)
    if session.only is not None or session.only_pattern:
        pytest.skip(_NOT_ON_LIST)


def skip_unless_ran(result: object) -> None:
    """Skip the running item where the row it got is of a case that the session did not run."""
    if isinstance(result, Row) and not result.ran:
        pytest.skip(_COLLECT if result.status == "collected" else _NOT_ON_LIST)


@contextlib.contextmanager
def failures_raised(session: Session, argv: Sequence[str] = ()) -> Iterator[None]:
    """Fail the running item with each failure that is recorded inside, also where it skips then.

    ``argv`` is the script's command line, for the words on how to run a case alone.
    """
    since = len(session.failures)
    try:
        yield
    except pytest.skip.Exception:
        raise_failures(session, since, argv)
        raise
    raise_failures(session, since, argv)


def raise_failures(session: Session, since: int, argv: Sequence[str] = ()) -> None:
    """Fail the running item with each reason recorded since then, and how to run it alone."""
    new = session.failures[since:]
    if not new:
        return
    lines = []
    for failure in new:
        lines.append(f"{failure.status.upper()} {failure.case_id}\n  {failure.reason}")
        if argv and "::" in failure.case_id:
            lines.append(f"  alone: {sessions.rerun_command(failure.case_id, argv)}")
    pytest.fail("\n".join(lines), pytrace=False)
