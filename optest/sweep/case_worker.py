"""A worker as its lane sees it: started for one file, given one case after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optest.store.records import GOOD, Planned, Result
from optest.sweep import outcome
from optest.sweep.death import Death

if TYPE_CHECKING:
    from optest.sweep.executor import Limits
    from optest.sweep.watch import Watch
    from optest.sweep.wire import Message

_DOING = {
    "importing": "while it was imported",
    "collecting": "while its cases were looked for",
}


class StoppedError(Exception):
    """The run was stopped: what ran has been ended and is nobody's result."""


@dataclass(frozen=True)
class Fault:
    """Why no case of a file can run. One that is not ``final`` may have come from outside."""

    status: str
    reason: str
    text: str = ""
    final: bool = True


def fault_of(death: Death, doing: str) -> Fault:
    """The fault of a file whose process died while it was ``doing`` something to start.

    Raises:
        StoppedError: the run was stopped.
    """
    if death.kind == "stopped":
        raise StoppedError
    reason = f"{death.reason} {_DOING.get(doing, 'before it was imported')}"
    return Fault(death.result, reason, death.text, final=death.kind not in ("ended", "lost"))


class CaseWorker:
    """``ran`` counts the cases it was given; it is no longer ``fit`` once one spoilt it."""

    def __init__(self, watch: Watch, file: str, limits: Limits) -> None:
        self.file = file
        self.fit = True
        self.ran = 0
        self._watch = watch
        self._limits = limits

    def close(self) -> None:
        """End it and all that its cases left running."""
        self.fit = False
        self._watch.close()

    def start(self) -> Fault | None:
        """Wait until it is ready; why it cannot be.

        Raises:
            StoppedError: the run was stopped.
        """
        self._watch.born()
        deadline = time.monotonic() + self._limits.seconds
        doing = ""
        while True:
            told = self._watch.next(deadline)
            if isinstance(told, Death):
                return fault_of(told, doing)
            event = told.get("event")
            if event == "ready":
                return None
            if event == "fault":
                self._watch.settle()
                text = self._watch.child.output.text
                return Fault("error", str(told.get("reason", "")), text)
            doing = str(event)

    def run(self, planned: Planned) -> Result | None:
        """Run one case; None where the process ended before it began it, so that another must.

        Raises:
            StoppedError: the run was stopped.
        """
        self._watch.restart()
        self.ran += 1
        began = _Began(planned)
        try:
            self._watch.child.tell({"run": planned.id})
        except OSError:
            self.fit = False  # its death comes next
        deadline = time.monotonic() + self._limits.seconds
        while True:
            told = self._watch.next(deadline)
            if isinstance(told, Death):
                return self._death(began, told)
            if told.get("event") == "done" and self._watch.settle():
                self.fit = bool(told.get("fit"))
                return began.done(told, self._watch.child.output.text)
            began.take(told)
            if began.unknown:
                return began.not_found()

    def _death(self, began: _Began, death: Death) -> Result | None:
        self.fit = False
        if death.kind == "stopped":
            raise StoppedError
        # What an earlier case left behind may have ended it: this one is not to blame.
        if not began.started and self.ran > 1:
            return None
        return began.died(death)


class _Began:
    """A case that was asked for, and what has been told of it."""

    def __init__(self, planned: Planned) -> None:
        self.started = False
        self.unknown = False
        self._planned = planned
        self._seed: int | None = None
        self._finished: Message | None = None
        self._time, self._clock = time.time(), time.monotonic()

    def take(self, told: Message) -> None:
        event, identity = told.get("event"), told.get("id")
        self.unknown = event == "unknown"
        if event == "started" and identity == self._planned.id:
            self.started = True
            self._seed = told.get("seed")
        if event == "finished" and identity == self._planned.id:
            self._finished = told

    def done(self, told: Message, output: str) -> Result:
        event = self._finished
        if event is None:
            reason = str(told.get("error") or "it ended without a result")
            event = {"status": "error", "reason": reason, "time": self._time}
        result = outcome.finished(self._planned, _completed(event, told), output)
        left = [*result.left, *map(str, told.get("left", ()))]
        return replace(
            result,
            seed=self._seed,
            left=list(dict.fromkeys(left)),
            peak_bytes=told.get("peak_bytes"),
            device_peak_bytes=told.get("device_peak_bytes"),
        )

    def died(self, death: Death) -> Result:
        seconds = time.monotonic() - self._clock
        result = outcome.died(self._planned, death, seconds, self._time)
        result = replace(result, seed=self._seed)
        if self._finished is None:
            return result
        known = outcome.finished(self._planned, self._finished)
        return replace(
            result, reason=f"{result.reason}, after it had {known.status}", row=known.row
        )

    def not_found(self) -> Result:
        reason = "main() did not ask for it again: its list of cases is not the same each time"
        return Result(self._planned, "error", reason, started=self._time)


def _completed(event: Message, told: Message) -> Message:
    """The end of a case with what only its worker knows of it.

    A case that pytest's functions left says "skipped", whichever of them it was. A case that
    called another, or started a thread, is good only where those are.
    """
    error = str(told.get("error") or "")
    if error and event.get("status") == "skipped":
        event = {**event, "status": "skipped" if told.get("skip") else "error", "reason": error}
    beside = told.get("beside")
    if beside and event.get("status") in GOOD:
        event = {**event, "status": "failed", "reason": "; ".join(map(str, beside))}
    return event
