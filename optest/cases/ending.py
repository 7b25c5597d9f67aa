"""The end of a script's session: one line of totals, each failing case, and the exit code."""

from __future__ import annotations

import atexit
import ctypes
import logging
import multiprocessing
import multiprocessing.util
import os
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from optest import arch
from optest.cases import session as sessions
from optest.log import logger, warning_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from optest.cases.session import Session

OK, FAILED, NOTHING_RAN, INTERRUPTED = 0, 1, 5, 130
_SHOWN = 50


class _Watch:
    """What the interpreter does not keep: the status a script asked for, and who is asking."""

    def __init__(self) -> None:
        self.installed_by = 0
        self.asked: int | None = None
        self.crashed = False
        self.started = time.monotonic()


_watch = _Watch()


def install() -> None:
    """Judge this process when it exits. Installed by the first case or check, and by a script."""
    if _watch.installed_by == os.getpid():
        return
    inherited = _watch.installed_by != 0
    _watch.installed_by = os.getpid()
    _watch.started = time.monotonic()
    if not inherited:
        sys.exit = _recording(sys.exit)
        sys.excepthook = _noting(sys.excepthook)
        os._exit = _refusing(os._exit)  # type: ignore[assignment]
        atexit.register(_at_exit)
    if multiprocessing.parent_process() is not None:
        # Such children leave by os._exit and run no handlers but these.
        multiprocessing.util.Finalize(None, _at_exit, exitpriority=0)


def _recording(original: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
    # At exit the interpreter no longer tells with what status it was asked to end, and argparse's
    # usage errors (2) and --help (0) must stay what they are.
    def exit_(status: object = None, /) -> NoReturn:
        _watch.asked = status if isinstance(status, int) else int(status is not None)
        original(status)

    return exit_


def _refusing(original: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    # A candidate that ends the process in the middle of its case must not end it well; neither
    # must a script, or a handler that a candidate left for the end, where checks have failed.
    def exit_now(status: int, /) -> NoReturn:
        session = sessions.current()
        if status == OK and os.getpid() == _watch.installed_by:
            if session.case is not None:
                _say(f"optest: os._exit(0) was called while {session.case.id} ran")
                status = FAILED
            elif session.judged_by == "exit" and session.failures:
                report(session, time.monotonic() - _watch.started)
                status = FAILED
        original(status)

    return exit_now


def _noting(original: Callable[..., object]) -> Callable[..., object]:
    def hook(kind: type[BaseException], *details: object) -> object:
        _watch.crashed = True
        if issubclass(kind, KeyboardInterrupt) and os.getpid() == _watch.installed_by:
            interrupted(sessions.current())
            return None
        return original(kind, *details)

    return hook


def _at_exit() -> None:
    if os.getpid() != _watch.installed_by:
        return
    session = sessions.current()
    if session.judged_by != "exit":
        return
    code = judge(session)
    report(session, time.monotonic() - _watch.started)
    if code is not None:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):  # closed by the script or by a reader that left
                continue
        flush_all = getattr(ctypes.CDLL(None), "fflush", None)
        if flush_all is not None:  # what C and C++ have printed
            flush_all(None)
        # Nothing else changes the status once the interpreter is on its way out.
        os._exit(code)


def interrupted(session: Session) -> None:
    """Show what was finished. Called while the script's frames still hold their rows."""
    from optest.cases.summary import print_unfinished

    if not session.interrupted:
        session.interrupted = True
        print_unfinished(session)


def judge(session: Session) -> int | None:
    """The exit code this session demands, or None to leave the script its own."""
    if session.interrupted:
        return INTERRUPTED
    if session.failures or (session.events is not None and session.events.failed):
        return FAILED
    if _watch.crashed or _watch.asked not in (None, OK):
        return None
    return NOTHING_RAN if _ran_nothing(session) else None


def _ran_nothing(session: Session) -> bool:
    if session.mode == "collect" or session.ran:
        return False
    if session.filtered:
        return True
    if not session.script_functions or {"-h", "--help", "--version"} & set(sys.argv[1:]):
        return False
    gated = arch.gfx_was_read() and warning_count.count > 0
    return not gated


def report(session: Session, seconds: float) -> None:
    """Totals and failing cases, to standard error."""
    if session.mode == "collect":
        return
    if session.interrupted:
        logger.error("interrupted; the tables hold what was finished")
    if session.ran or session.failures:
        _say(f"optest: {totals(session)} in {seconds:.1f} s")
    elif judge(session) == NOTHING_RAN:
        _say(
            "optest: no case ran: "
            + (
                f"OPTEST_ONLY names none of the {session.filtered} cases"
                if session.filtered
                else "the script defines @benchmark functions and called none of them "
                "(an empty list of shapes or dtypes?)"
            )
            + ", exit code 5"
        )
    for failure in session.failures[:_SHOWN]:
        _say(f"  {failure.status.upper()} {failure.case_id}\n    {failure.reason}")
        if "::" in failure.case_id:
            _say(f"    alone: {sessions.rerun_command(failure.case_id, sys.argv)}")
    if len(session.failures) > _SHOWN:
        _say(f"  … and {len(session.failures) - _SHOWN} more")


def totals(session: Session) -> str:
    """``16 cases: 14 passed, 1 failed, 1 error``."""
    counts = ", ".join(f"{count} {status}" for status, count in session.totals.items() if count)
    noun = "case" if session.ran == 1 else "cases"
    return f"{session.ran} {noun}: {counts}"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
