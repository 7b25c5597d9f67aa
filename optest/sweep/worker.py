"""In a child: one op test, imported once, whose cases run when they are asked for."""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from optest import settings
from optest.cases import collecting, course, text
from optest.cases import session as sessions
from optest.cases.events import Events, encoded
from optest.cases.session import OUTSIDE, Session
from optest.sweep import collector, memory, wire
from optest.sweep.death import CUT_OFF
from optest.sweep.leftovers import Leftovers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optest.cases.session import Collected

# Before a test can put others in their place.
_leave = os._exit
_pid_of_this = os.getpid


class PipeEvents(Events):
    """Events to the parent; what a forked child of a case sends is no word of this process.

    The end of a case is held back until the worker has looked at what it left: one write, for
    which the parent wakes once.
    """

    def __init__(self, fd: int) -> None:
        self.failed = False
        self._fd = fd
        self._pid = _pid_of_this()
        self._held = b""

    def write(self, event: str, **fields: object) -> None:
        """Send one line; it waits until the parent has taken it."""
        if _pid_of_this() != self._pid:
            return
        self._held += encoded({"event": event, "time": time.time(), **fields})
        if event != "finished":
            held, self._held = self._held, b""
            wire.write_all(self._fd, held)


def run(task: Mapping[str, Any], fds: Mapping[str, int]) -> None:
    """Import and collect ``task["file"]``, then run each case that comes in, until none does."""
    out = fds["wire"]
    found = collector.find(task, out)
    if found is None:
        return
    if not found.cases:
        reason = found.whole or found.gated
        wire.send(out, {"event": "fault", "reason": f"no case to run here any more: {reason}"})
        return
    cases = {case.id: case for case in found.cases}
    session = Session(
        mode=task["mode"],
        guards=task["guards"],
        seed=settings.get_int("OPTEST_SEED"),
        events=PipeEvents(fds["wire"]),
        judged_by="",
    )
    gc.freeze()  # what was imported and collected outlives every case
    session.emit("ready")
    with sessions.using(session):
        _serve(cases, session, fds)


def _serve(cases: Mapping[str, Collected], session: Session, fds: Mapping[str, int]) -> None:
    own = {fds[name]: os.fstat(fds[name]) for name in ("wire", "commands", "fault")}
    leftovers = Leftovers(own)
    pid = _pid_of_this()
    for command in wire.commands(fds["commands"]):
        case = cases.get(command["run"])
        if case is None:
            session.emit("unknown")
            continue
        leftovers.before()
        memory.begin()
        told = _run_one(session, case)
        if _pid_of_this() != pid:  # a child that the case forked came back through it
            _leave(1)
        peaks = memory.peaks()
        left, fit = leftovers.after()
        if not leftovers.can_tell:
            _leave(CUT_OFF)
        session.emit("done", left=left, fit=fit, **told, **peaks)


def _run_one(session: Session, case: Collected) -> dict[str, Any]:
    """Run it; what its row does not say: what it raised past it, and what failed beside it."""
    told: dict[str, Any] = {"error": "", "skip": False}
    try:
        collecting.run(session, case)
    except BaseException as raised:  # noqa: BLE001 - no case ends the worker
        told = {"error": text.of_error(raised), "skip": course.is_no_fault(raised)}
    told["beside"] = _beside(session, case)
    session.failures.clear()
    session.interrupted = False
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed or replaced by the case
            continue
    return told


def _beside(session: Session, case: Collected) -> list[str]:
    """What failed in cases that it called, and in threads, which have no case."""
    others = [failure for failure in session.failures if failure.case_id != case.id]
    return [
        f"{'in a thread' if other.case_id == OUTSIDE else other.case_id}: {other.reason}"
        for other in others
    ]
