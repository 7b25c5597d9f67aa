"""An op test that is run whole, as ``python script``: its cases as its events tell them."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from optest.store.records import GOOD, Planned, Result
from optest.sweep import outcome, wire
from optest.sweep.case_worker import StoppedError

if TYPE_CHECKING:
    from pathlib import Path

    from optest.sweep.death import Death
    from optest.sweep.executor import Limits, Take
    from optest.sweep.watch import Watch

_LOOKS_EVERY_S = 0.05
_START_S = 60.0  # a fresh interpreter imports torch before anything can happen
_REPLACED = "its events file was replaced: what became of all of its cases is not known"


class WholeScript:
    """One run of a script; ``take`` gets each case as it ends.

    Args:
        events: the file that the script appends its events to, made before it starts.
    """

    def __init__(self, planned: Planned, events: Path, limits: Limits, take: Take) -> None:
        self._planned = planned
        self._path = events
        self._limits = limits
        self._take = take
        self._fd = os.open(events, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._reader = wire.LineReader(self._fd)
        self._running: dict[tuple[object, str], wire.Message] = {}
        self._statuses: list[str] = []

    def close(self) -> None:
        """Let go of the events file; what a script put in its place goes with the folder."""
        os.close(self._fd)
        with contextlib.suppress(OSError):
            self._path.unlink()

    def run(self, watch: Watch) -> Result:
        """Take the events until the script ends, then what became of it.

        Raises:
            StoppedError: the run was stopped.
        """
        watch.born()
        began, clock = time.time(), time.monotonic()
        deadline = clock + self._limits.seconds + _START_S
        while watch.death is None:
            watch.wait(time.monotonic() + _LOOKS_EVERY_S, deadline)
            if self._take_events(watch):
                deadline = time.monotonic() + self._limits.seconds
        self._take_events(watch)
        death = watch.death
        if death.kind == "stopped":
            raise StoppedError
        self._take_unfinished(death)
        result = replace(self._judged(death), seconds=time.monotonic() - clock, started=began)
        return replace(result, peak_bytes=watch.child.peak_bytes)

    def _take_events(self, watch: Watch) -> bool:
        """Whether anything happened."""
        events = self._reader.read()
        for event in events:
            key = (event.get("pid"), str(event.get("id")))
            if event.get("event") == "started":
                self._running[key] = event
            elif event.get("event") == "finished":
                self._finish(self._running.pop(key, event), event, watch.child.output.text)
        return bool(events)

    def _finish(self, started: wire.Message, event: wire.Message, output: str) -> None:
        planned = outcome.of_script(self._planned, started)
        self._kept(outcome.finished(planned, event, output))

    def _kept(self, result: Result) -> None:
        self._statuses.append(result.status)
        self._take(result)

    def _take_unfinished(self, death: Death) -> None:
        for event in self._running.values():
            planned = outcome.of_script(self._planned, event)
            started = event.get("time", 0.0)
            result = outcome.died(planned, death, max(0.0, time.time() - started), started)
            if death.exit_code is not None:
                result = replace(result, reason="the process that ran it ended in the middle of it")
            self._kept(result)

    def _judged(self, death: Death) -> Result:
        result = self._by_exit(death)
        if self._replaced():
            result = replace(result, left=["events file"])
            if result.good:
                result = replace(result, status="failed", reason=_REPLACED, text=death.text)
        return result

    def _by_exit(self, death: Death) -> Result:
        code = death.exit_code
        if death.kind != "ended" or code is None:
            return outcome.died(self._planned, death, 0.0, 0.0)
        bad = sum(status not in GOOD for status in self._statuses)
        last = death.output.strip().splitlines()[-1:] or [""]
        if code == 0 and not bad:
            if self._statuses:
                return Result(self._planned, "passed")
            return Result(self._planned, "skipped", f"it asked for no case: {last[0]}")
        words = f"{bad} of {len(self._statuses)} cases did not pass" if bad else last[0]
        return Result(self._planned, "failed", f"exit code {code}: {words}", death.text)

    def _replaced(self) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._fd))
        except OSError:
            return True
