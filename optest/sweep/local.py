"""The executor of one machine: lanes of cores or GPUs, workers forked from one nursery."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from optest.store.records import Place, Planned
from optest.sweep import outcome
from optest.sweep.backlog import Backlog
from optest.sweep.case_worker import StoppedError, fault_of
from optest.sweep.death import Death
from optest.sweep.executor import Collection, Limits
from optest.sweep.lane_run import LaneRun
from optest.sweep.nursery import Nursery, NurseryError, Request
from optest.sweep.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

    from optest.store.records import Result
    from optest.sweep.case_worker import Fault
    from optest.sweep.executor import Begin, Job, Take, Work
    from optest.sweep.lane import Lane
    from optest.sweep.nursery import Child, Home

_PLACE_WITHIN_S = 120.0
_JOINS_EVERY_S = 0.2
_LAST_WORDS_WITHIN_S = 2.0
_NURSERIES = 3  # one that was killed from outside is replaced, one that always dies is not
_FREE_SHARE = 0.95


class LocalExecutor:
    """Collects and runs on this machine; a context manager that leaves no process behind.

    Args:
        lanes: where units run, one at a time on each.
        home: what its processes are started from; by default as this one.
    """

    def __init__(self, job: Job, lanes: Sequence[Lane], home: Home | None = None) -> None:
        self._job = job
        self._lanes = tuple(lanes)
        self._home = home
        self._nursery: Nursery | None = None
        self._nurseries = 0
        self._guard = threading.Lock()  # of the nursery
        self._telling = threading.Lock()  # of begin, take and tell
        self._places: dict[tuple[tuple[str, str], ...], Place] = {}
        self._error: BaseException | None = None
        self._stopped = False

    def __enter__(self) -> Self:
        self._scratch = Path(tempfile.mkdtemp(prefix="optest-"))
        self._stop_read, self._stop_write = os.pipe()
        os.set_blocking(self._stop_write, False)
        self._start_nursery()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        if self._nursery is not None:
            self._nursery.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        for fd in (self._stop_read, self._stop_write):
            os.close(fd)

    @property
    def width(self) -> int:
        """How many units it runs at a time."""
        return len(self._lanes)

    def stop(self) -> None:
        """End what runs, soon. May be called from another thread or a signal handler."""
        # No lock: a signal handler may have interrupted whoever holds it.
        self._stopped = True
        try:
            os.write(self._stop_write, b".")
        except OSError:  # full: it is ready to be read, which is all that counts
            return

    def place(self) -> Place:
        """What its first lane runs on."""
        return self._place_of(self._lanes[0])

    def ready(self) -> None:
        """Wait until processes can be started.

        Raises:
            NurseryError: they cannot; the message holds the last words of what starts them.
        """
        if self.place().gfx:
            return
        nursery, latest = self._nursery, time.monotonic() + _LAST_WORDS_WITHIN_S
        while nursery is not None and nursery.alive and time.monotonic() < latest:
            time.sleep(_LAST_WORDS_WITHIN_S / 100)
        if nursery is not None and not nursery.alive:
            raise NurseryError(f"no process can be started: {nursery.last_words}")

    def collect(self, files: Sequence[str], tell: Callable[[Collection], None]) -> list[Collection]:
        """Find the cases of each file, running none; in the order given."""

        def one(at: int, file: str) -> Collection:
            found = self._collect_one(self._lanes[at % len(self._lanes)], file)
            with self._telling:
                tell(found)
            return found

        most = max(len(self._lanes), os.cpu_count() or 1)
        with ThreadPoolExecutor(max(1, min(most, len(files)))) as pool:
            return list(pool.map(one, range(len(files)), files))

    def run(self, work: Sequence[Work], begin: Begin, take: Take) -> None:
        """Run every unit once and return when none is left."""
        backlog = Backlog(work, _free_bytes(), lambda: self._stopped)
        faults: dict[str, Fault] = {}
        threads = [
            threading.Thread(
                target=self._run_lane, args=(lane, backlog, faults, begin, take), name=lane.name
            )
            for lane in self._lanes
        ]
        try:
            for thread in threads:
                thread.start()
            _join(threads)
        except BaseException:
            self.stop()
            _join(threads)
            raise
        if self._error is not None:
            raise self._error

    def _run_lane(
        self, lane: Lane, backlog: Backlog, faults: dict[str, Fault], begin: Begin, take: Take
    ) -> None:
        def begin_alone(planned: Planned) -> None:
            with self._telling:
                begin(planned)

        def take_alone(result: Result) -> None:
            with self._telling:
                if self._error is None:
                    self._failing(take, result)

        try:
            LaneRun(
                lane,
                self._place_of(lane),
                fork=self._fork_for,
                limits=self._job.limits,
                begin=begin_alone,
                take=take_alone,
                faults=faults,
                scratch=self._scratch,
                stop=self._stop_read,
            ).run(backlog)
        except BaseException as error:  # noqa: BLE001 - raised by run() itself
            self._error = self._error or error
            self.stop()

    def _failing(self, take: Take, result: Result) -> None:
        try:
            take(result)
        except BaseException as error:
            self._error = error  # before another lane may take: nothing is kept any more
            raise

    def _place_of(self, lane: Lane) -> Place:
        key = tuple(sorted(lane.environment.items()))
        with self._guard:
            known = self._places.get(key)
        if known is not None:
            return known
        child = self._fork(lane, "place", {})
        with Watch(child, Limits(_PLACE_WITHIN_S), self._stop_read) as watch:
            told = watch.next(time.monotonic() + _PLACE_WITHIN_S)
        place = Place(host=socket.gethostname())
        if not isinstance(told, Death):
            place = outcome.place_of(told)
        with self._guard:
            return self._places.setdefault(key, place)

    def _collect_one(self, lane: Lane, file: str) -> Collection:
        task = {"file": file, "argv": self._job.argv}
        child = self._fork(lane, "collector", task)
        limits = self._job.limits
        planned: list[Planned] = []
        doing = ""
        with Watch(child, limits, self._stop_read) as watch:
            watch.born()
            deadline = time.monotonic() + limits.seconds
            while True:
                told = watch.next(deadline)
                if isinstance(told, Death):
                    return Collection(file, fault=_fault_line(told, doing))
                event = told.get("event")
                if event == "fault":
                    return Collection(file, fault=str(told["reason"]))
                if event == "collected":
                    return _collection(file, planned, told["gated"], told["whole"])
                if event == "cases":
                    planned += (_planned(file, *case) for case in told["cases"])
                doing = doing if event == "cases" else str(event)

    def _fork_for(self, lane: Lane, kind: str, planned: Planned, events: Path | None) -> Child:
        job = self._job
        if kind == "worker":
            task = {"file": planned.file, "argv": job.argv, "mode": job.mode, "guards": job.guards}
            return self._fork(lane, kind, task)
        task = {"script": planned.file, "arguments": job.argv}
        return self._fork(lane, kind, task, {"OPTEST_EVENTS": str(events)})

    def _fork(
        self,
        lane: Lane,
        kind: str,
        task: Mapping[str, object],
        variables: Mapping[str, str] | None = None,
    ) -> Child:
        environment: dict[str, str | None] = {
            "OPTEST_MODE": self._job.mode,
            "OPTEST_GUARDS": self._job.guards,
            "OPTEST_ONLY": None,
            "OPTEST_EVENTS": None,
        }
        environment |= {**lane.environment, **(variables or {})}
        request = Request(kind, self._job.folder, environment, lane.cores, lane.threads, task)
        with self._guard:
            while True:
                if self._nursery is None or not self._nursery.alive:
                    self._start_nursery()
                assert self._nursery is not None
                try:
                    return self._nursery.fork(request)
                except NurseryError:  # it died just now
                    continue

    def _start_nursery(self) -> None:
        words = ""
        if self._nursery is not None:
            words = self._nursery.last_words
            self._nursery.close()
        if self._nurseries == _NURSERIES:
            raise NurseryError(f"no process can be started: {words}")
        self._nurseries += 1
        self._scratch.mkdir(exist_ok=True)
        self._nursery = Nursery(self._scratch, self._home)


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        while thread.is_alive():  # in pieces, so that a signal is handled meanwhile
            thread.join(_JOINS_EVERY_S)


def _planned(
    file: str, identity: str, function: str, arguments: dict[str, object], table: str
) -> Planned:
    return Planned(identity, file, function, arguments, table=table)


def _collection(file: str, planned: list[Planned], gated: str, whole: str) -> Collection:
    if whole:
        return Collection(file, planned=(Planned(Path(file).name, file),), whole=whole)
    return Collection(file, planned=tuple(planned), gated=gated)


def _fault_line(death: Death, doing: str) -> str:
    try:
        return fault_of(death, doing).reason
    except StoppedError:
        return death.reason


def _free_bytes() -> int:
    import psutil

    free = float(psutil.virtual_memory().available)
    try:
        most = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        free = min(free, most - used)
    except (OSError, ValueError):  # no limit, or no such file
        pass
    return int(free * _FREE_SHARE)
