"""What is seen of a sweep while it lasts: a live display, plain lines, or nothing but failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from optest.line import one_line
from optest.store.records import Planned, Result
from optest.sweep.executor import Collection, Work
from optest.sweep.pace import Pace
from optest.sweep.words import after, duration

if TYPE_CHECKING:
    from typing_extensions import Self

_SHOWN_RUNNING = 3
_EVERY_S = 5.0


class Progress(Protocol):
    """A context manager; its methods are called one at a time, from any thread."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def expect_files(self, count: int) -> None:
        """So many op tests are about to be collected."""

    def collected(self, collection: Collection) -> None:
        """One of them was."""

    def expect(self, work: Sequence[Work], width: int) -> None:
        """This is about to run, ``width`` at a time."""

    def begin(self, planned: Planned) -> None:
        """A unit starts."""

    def take(self, result: Result) -> None:
        """A unit has a result."""

    def say(self, words: str) -> None:
        """Something has to be said now."""


class Plain:
    """Lines for a log: one now and then, and one for each failure at once.

    They come less often the longer a sweep lasts: at most every 5 s, later every fiftieth of the
    time gone by.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._started = self._last = clock()
        self._files = self._collected = 0
        self._pace = Pace([], 1, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def expect_files(self, count: int) -> None:
        """So many op tests are about to be collected."""
        self._files = count

    def collected(self, collection: Collection) -> None:
        """One of them was."""
        self._collected += 1
        if collection.fault:
            self.say(fault_line(collection))
        self._now_and_then(lambda: f"collected {self._collected} of {self._files} files")

    def expect(self, work: Sequence[Work], width: int) -> None:
        """This is about to run."""
        self._pace = Pace(work, width, self._clock)
        self.say(f"optest: {len(work)} to run, {width} at a time")

    def begin(self, planned: Planned) -> None:
        """A unit starts."""
        self._pace.begin(planned)
        self._now_and_then(lambda: standing(self._pace))

    def take(self, result: Result) -> None:
        """A unit has a result."""
        self._pace.take(result)
        if not result.good:
            self.say(failure_line(result))
        self._now_and_then(lambda: standing(self._pace))

    def say(self, words: str) -> None:
        """Something has to be said now."""
        self._stream.write(words + "\n")
        self._stream.flush()

    def _now_and_then(self, words: Callable[[], str]) -> None:
        now = self._clock()
        if now - self._last >= max(_EVERY_S, (now - self._started) / 50):
            self._last = now
            self.say(f"optest: {words()}")


class Quiet(Plain):
    """Nothing: the failures stand at the end."""

    def say(self, words: str) -> None:
        """Say nothing."""


def standing(pace: Pace) -> str:
    """``120 of 200 done, 2 failed, about 3 min left; runs: …``."""
    words = f"{pace.done} of {pace.total} done"
    if pace.failed:
        words += f", {pace.failed} failed"
    left = pace.left_s()
    if left is not None and left >= 1:  # of what runs longer than ever before, none is known
        words += f", about {duration(left)} left"
    running = sorted(pace.running(), key=lambda each: -each[1])
    names = [f"{one_line(unit.id, 120)} ({duration(s)})" for unit, s in running[:_SHOWN_RUNNING]]
    more = len(running) - len(names)
    if names:
        words += f"; runs: {', '.join(names)}" + (f" and {more} more" if more else "")
    return words


def failure_line(result: Result) -> str:
    """What is said of a failure at once."""
    unit = result.planned
    where = f" on {unit.where}" if unit.where else ""
    return f"{result.status.upper()} {one_line(unit.id)}{where}: {one_line(result.reason, 300)}"


def fault_line(collection: Collection) -> str:
    """What is said of a file that cannot be run."""
    fault = after(collection.fault, collection.file)
    return f"FAULT {one_line(collection.file)}: {one_line(fault, 300)}"
