"""What one lane does in a run: takes units until none is left, one at a time."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from optest.store.records import Place, Planned, Result
from optest.sweep.case_worker import CaseWorker, Fault, StoppedError
from optest.sweep.watch import Watch
from optest.sweep.whole_script import WholeScript

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from optest.sweep.backlog import Backlog
    from optest.sweep.executor import Begin, Limits, Take
    from optest.sweep.lane import Lane
    from optest.sweep.nursery import Child


class LaneRun:
    """One lane's part of a run.

    Args:
        fork: forks a child of a kind for a file, on a lane, with its events file if it has one.
        faults: of files, by name, shared by the lanes.
    """

    def __init__(  # noqa: PLR0913 - what a run is made of
        self,
        lane: Lane,
        place: Place,
        *,
        fork: Callable[[Lane, str, Planned, Path | None], Child],
        limits: Limits,
        begin: Begin,
        take: Take,
        faults: dict[str, Fault],
        scratch: Path,
        stop: int,
    ) -> None:
        self._lane = lane
        self._place = place
        self._fork = fork
        self._limits = limits
        self._begin = begin
        self._take = take
        self._faults = faults
        self._scratch = scratch
        self._stop = stop
        self._worker: CaseWorker | None = None

    def run(self, backlog: Backlog) -> None:
        """Run units until none is left, or the run is stopped."""
        try:
            while running := backlog.take(self._lane, self._warm):
                try:
                    self._begin(running.work.planned)
                    result = self._result(running.work.planned)
                    self._take(replace(result, place=self._place, neighbours=running.neighbours))
                finally:
                    backlog.done(running)
        except StoppedError:
            pass
        finally:
            self._drop()

    @property
    def _warm(self) -> str | None:
        return self._worker.file if self._worker is not None and self._worker.fit else None

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _result(self, planned: Planned) -> Result:
        if planned.whole:
            return self._whole(planned)
        while True:
            fault = self._faults.get(planned.file) or self._ready(planned)
            if fault is not None:
                return Result(planned, fault.status, fault.reason, fault.text, started=time.time())
            assert self._worker is not None
            result = self._worker.run(planned)
            if not self._worker.fit:
                self._drop()
            if result is not None:
                return result

    def _ready(self, planned: Planned) -> Fault | None:
        """Have a worker for its file; why there can be none."""
        if self._warm == planned.file:
            return None
        fault = self._start(planned)
        if fault is not None and not fault.final:
            fault = self._start(planned)
        if fault is not None:
            self._drop()
            self._faults[planned.file] = fault
        return fault

    def _start(self, planned: Planned) -> Fault | None:
        self._drop()
        child = self._fork(self._lane, "worker", planned, None)
        watch = Watch(child, self._limits, self._stop)
        self._worker = CaseWorker(watch, planned.file, self._limits)
        return self._worker.start()

    def _whole(self, planned: Planned) -> Result:
        self._drop()  # it would hold memory beside the script
        events = self._scratch / f"{self._lane.name}-{time.monotonic_ns()}.jsonl"
        script = WholeScript(planned, events, self._limits, self._take_case)
        try:
            child = self._fork(self._lane, "script", planned, events)
            with Watch(child, self._limits, self._stop) as watch:
                return script.run(watch)
        finally:
            script.close()

    def _take_case(self, result: Result) -> None:
        self._take(replace(result, place=self._place))
