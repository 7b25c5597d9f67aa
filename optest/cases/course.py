"""The course of one case: how its start, what it raised and what became of it are told."""

from __future__ import annotations

import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from optest.cases import saved
from optest.cases.row import ERROR_COLUMN
from optest.cases.session import Failure

if TYPE_CHECKING:
    from optest.cases.case import Case
    from optest.cases.row import Row
    from optest.cases.session import Session

_HOUSE = Path(__file__).parent.parent
_LONGEST_REASON = 2_000
_LONGEST_TRACEBACK = 20_000
_SKIPS = ("Skipped", "SkipTest")


def begin(session: Session, case: Case, row: Row) -> None:
    """Tell the sink that the case starts."""
    session.emit(
        "started",
        id=case.id,
        file=case.file,
        function=case.function,
        arguments={name: row[name] for name in row.arguments},
        seed=case.seed,
    )


def finish(session: Session, case: Case, row: Row, error: str, seconds: float) -> None:
    """Count the case, keep its inputs where it failed, and tell the sink."""
    # A finding is a failure too, also where a candidate took the place of what notes failures.
    against = [*case.failures, *map(str, case.findings)]
    if row.status in ("passed", "empty", "skipped") and against:
        row.status = "failed"
    reason = error or "; ".join(dict.fromkeys(against))[:_LONGEST_REASON]
    if row.status == "error":
        row[ERROR_COLUMN] = error
    session.totals[row.status] += 1
    row.judged = True
    if row.status in ("failed", "error"):
        session.failures.append(Failure(case.id, row.status, reason))
        saved.save_inputs(case)
    session.emit(
        "finished",
        id=case.id,
        status=row.status,
        seconds=seconds,
        reason=reason,
        row={key: value for key, value in row.items() if key not in row.arguments},
        checks=[{"verdict": verdict} for verdict in case.verdicts],
        unguarded=case.unguarded,
        findings=[asdict(finding) for finding in case.findings],
        left=case.left,
    )
    case.forget()


def belongs_to_pytest(exception: BaseException) -> bool:
    """Whether it is a word to pytest, as ``pytest.skip()`` inside a case, and no crash."""
    # Their classes pretend to be builtins, and pytest is not there outside a test run.
    return any(
        isinstance(exception, kind)
        for module, name in (("_pytest.outcomes", "OutcomeException"), ("unittest", "SkipTest"))
        if (kind := getattr(sys.modules.get(module), name, None)) is not None
    )


def is_skip(exception: BaseException) -> bool:
    """Whether it is ``pytest.skip()``, or ``unittest.SkipTest``."""
    return belongs_to_pytest(exception) and type(exception).__name__ in _SKIPS


def is_no_fault(exception: BaseException) -> bool:
    """Whether it is a skip, or the ``pytest.xfail()`` of a fault that is known."""
    return belongs_to_pytest(exception) and type(exception).__name__ in (*_SKIPS, "XFailed")


def traceback_of(exception: BaseException) -> str:
    """The traceback without the harness's own frames at its head, bounded in length."""
    frame = exception.__traceback__
    while frame is not None and Path(frame.tb_frame.f_code.co_filename).is_relative_to(_HOUSE):
        frame = frame.tb_next
    words = "".join(
        traceback.format_exception(type(exception), exception, frame or exception.__traceback__)
    )
    if len(words) <= _LONGEST_TRACEBACK:
        return words
    half = _LONGEST_TRACEBACK // 2
    return f"{words[:half]}\n… {len(words) - 2 * half} characters left out …\n{words[-half:]}"
