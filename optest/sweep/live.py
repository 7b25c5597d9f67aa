"""The live display of a sweep, for a terminal."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from optest.line import one_line
from optest.store.records import Planned, Result
from optest.sweep.executor import Collection, Work
from optest.sweep.pace import Pace
from optest.sweep.progress import failure_line, fault_line
from optest.sweep.words import duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from typing_extensions import Self

_A_SECOND = 4
_BAR = 30
_LANES_SHOWN = 16
_WORTH_SAYING_S = 1.0  # what runs longer than ever before leaves an estimate of nothing


class Display:
    """A bar, the counts, the time left, and what runs; failures scroll by above them.

    It is drawn by a thread of its own, so that a long case is seen to run.
    """

    def __init__(self, console: Console) -> None:
        self._lock = threading.RLock()  # drawing may be asked for by what holds it
        self._files = self._collected = 0
        self._pace: Pace | None = None
        self._live = Live(
            console=console,
            refresh_per_second=_A_SECOND,
            transient=True,
            get_renderable=self._drawn,
            redirect_stdout=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def expect_files(self, count: int) -> None:
        """So many op tests are about to be collected."""
        self._files = count

    def collected(self, collection: Collection) -> None:
        """One of them was."""
        self._collected += 1
        if collection.fault:
            self.say(fault_line(collection))

    def expect(self, work: Sequence[Work], width: int) -> None:
        """This is about to run."""
        with self._lock:
            self._pace = Pace(work, width)

    def begin(self, planned: Planned) -> None:
        """A unit starts."""
        with self._lock:
            if self._pace is not None:
                self._pace.begin(planned)

    def take(self, result: Result) -> None:
        """A unit has a result."""
        with self._lock:
            if self._pace is not None:
                self._pace.take(result)
        if not result.good:
            self.say(failure_line(result))

    def say(self, words: str) -> None:
        """Something has to be said now."""
        # As text: what stands in the brackets of an id is no markup.
        self._live.console.print(Text(words), soft_wrap=True)

    def _drawn(self) -> RenderableType:
        with self._lock:
            if self._pace is None:
                return Text(f"collecting {self._collected}/{self._files} files")
            return Group(_counts(self._pace), *_running(self._pace))


def _counts(pace: Pace) -> RenderableType:
    left = pace.left_s()
    words = Text(f"{pace.done}/{pace.total}")
    if pace.failed:
        words.append(f"  {pace.failed} failed", style="bold red")
    if left is not None and left >= _WORTH_SAYING_S:
        words.append(f"  about {duration(left)} left")
    row = Table.grid(padding=(0, 1))
    row.add_row(ProgressBar(total=max(pace.total, 1), completed=pace.done, width=_BAR), words)
    return row


def _running(pace: Pace) -> list[RenderableType]:
    running = sorted(pace.running(), key=lambda each: -each[1])
    lines: list[RenderableType] = [
        Text(f"  {duration(s):>8}  {one_line(unit.id, 300)}", no_wrap=True, overflow="ellipsis")
        for unit, s in running[:_LANES_SHOWN]
    ]
    if len(running) > _LANES_SHOWN:
        lines.append(Text(f"  … and {len(running) - _LANES_SHOWN} more"))
    return lines
