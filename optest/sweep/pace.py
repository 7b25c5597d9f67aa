"""How far a sweep has come, and how long what is left may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optest.store.records import Expected, Planned, Result
from optest.sweep.executor import Work

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Running:
    """A unit that runs, and since when, on the clock of its ``Pace``."""

    planned: Planned
    since: float


class Pace:
    """Counts what is done and estimates the rest.

    Units that have not run before are taken to last as long as the mean of those done.

    Attributes:
        done: units of this sweep that have a result.
        failed: results, cases of whole scripts among them, that are not good.
    """

    def __init__(
        self, work: Sequence[Work], width: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total = len(work)
        self.done = 0
        self.failed = 0
        self._clock = clock
        self._width = max(1, width)
        self._left: dict[Key, Expected | None] = {w.planned.key: w.expected for w in work}
        self._known_left_s = sum(w.expected.seconds for w in work if w.expected is not None)
        self._unknown_left = sum(w.expected is None for w in work)
        self._took_s = 0.0
        self._running: dict[Key, Running] = {}

    def begin(self, planned: Planned) -> None:
        """A unit starts, perhaps once more after a lost node."""
        self._running[planned.key] = Running(planned, self._clock())

    def take(self, result: Result) -> None:
        """A unit, or a case of a whole script, has a result."""
        key = result.planned.key
        self.failed += not result.good
        if key not in self._left:
            return
        expected = self._left.pop(key)
        self._running.pop(key, None)
        self.done += 1
        self._took_s += result.seconds
        if expected is None:
            self._unknown_left -= 1
        else:
            self._known_left_s -= expected.seconds

    def running(self) -> list[tuple[Planned, float]]:
        """What runs, longest first, and for how many seconds."""
        now = self._clock()
        return [(each.planned, now - each.since) for each in list(self._running.values())]

    def left_s(self) -> float | None:
        """Seconds until all is done; None while nothing is known of it."""
        if self.done == 0 and self._unknown_left:
            return None
        mean = self._took_s / self.done if self.done else 0.0
        spent = sum(min(for_s, self._length(unit, mean)) for unit, for_s in self.running())
        alone = max(self._known_left_s + self._unknown_left * mean - spent, 0.0)
        return alone / self._width

    def _length(self, unit: Planned, mean: float) -> float:
        expected = self._left.get(unit.key)
        return mean if expected is None else expected.seconds
