"""What is left to run, shared by the lanes: who takes what next, and what fits beside what."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optest.sweep.executor import Work
    from optest.sweep.lane import Lane

_LOOKS_EVERY_S = 0.2
_START_S = 2.0  # a case that is longer by this is worth the start of another worker


@dataclass
class Running:
    """A unit that runs, and how many others did at any time while it did."""

    work: Work
    lane: Lane
    neighbours: int = 0


class Backlog:
    """Units in the order given, handed to lanes.

    Args:
        memory_bytes: memory of the machine that units may hold together.
        stopped: whether the run is to end.
    """

    def __init__(
        self, work: Sequence[Work], memory_bytes: int, stopped: Callable[[], bool]
    ) -> None:
        self._waiting = dict(enumerate(work))
        self._of_file: dict[str, list[int]] = {}
        for number, each in reversed(self._waiting.items()):
            self._of_file.setdefault(each.planned.file, []).append(number)
        self._memory_bytes = memory_bytes
        self._stopped = stopped
        self._running: list[Running] = []
        self._changed = threading.Condition()

    def take(self, lane: Lane, warm: str | None) -> Running | None:
        """The lane's next unit, once one fits; None where none is left or the run is to end.

        Args:
            lane: who asks.
            warm: the file that the lane has a worker for.
        """
        with self._changed:
            while self._waiting and not self._stopped():
                number = self._next(lane, warm)
                if number is not None:
                    return self._start(number, lane)
                # A signal handler cannot notify.
                self._changed.wait(_LOOKS_EVERY_S)
        return None

    def done(self, running: Running) -> None:
        """The unit has ended."""
        with self._changed:
            self._running.remove(running)
            self._changed.notify_all()

    def _start(self, number: int, lane: Lane) -> Running:
        work = self._waiting.pop(number)
        running = Running(work, lane)
        self._running.append(running)
        others = len(self._running) - 1
        for each in self._running:
            each.neighbours = max(each.neighbours, others)
        return running

    def _next(self, lane: Lane, warm: str | None) -> int | None:
        own = self._first_of(warm)
        if own is not None and self._worth_staying(own) and self._fits(own, lane):
            return own
        return next((number for number in self._waiting if self._fits(number, lane)), None)

    def _first_of(self, file: str | None) -> int | None:
        numbers = self._of_file.get(file or "", [])
        while numbers and numbers[-1] not in self._waiting:
            numbers.pop()
        return numbers[-1] if numbers else None

    def _worth_staying(self, own: int) -> bool:
        longest = _seconds(self._waiting[next(iter(self._waiting))])
        return longest - _seconds(self._waiting[own]) <= _START_S

    def _fits(self, number: int, lane: Lane) -> bool:
        if not self._running:
            return True
        new = self._waiting[number]
        here = sum(_peak(each.work) for each in self._running)
        if here + _peak(new) > self._memory_bytes:
            return False
        beside = [each for each in self._running if lane.device and each.lane.device == lane.device]
        if not beside or lane.device_bytes is None:
            return True
        there = sum(_device_peak(each.work) for each in beside)
        return there + _device_peak(new) <= lane.device_bytes


def _seconds(work: Work) -> float:
    return work.expected.seconds if work.expected else 0.0


def _peak(work: Work) -> int:
    return (work.expected and work.expected.peak_bytes) or 0


def _device_peak(work: Work) -> int:
    return (work.expected and work.expected.device_peak_bytes) or 0
