"""What is seen while kernels are lowered: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Self

_EVERY_S = 10.0


class Lines:
    """Plain lines for a log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begin = self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def begin(self, units: int) -> None:
        """So many units are to be done."""
        self._begin = self._last = time.monotonic()
        self._stream.write(f"lowering: {units} op tests and targets to do\n")
        self._stream.flush()

    def at(self, share: float, compiled: int, what: str) -> None:
        """This share is done."""
        now = time.monotonic()
        if now - self._last < _EVERY_S or not share:
            return
        self._last = now
        left = (now - self._begin) * (1 - share) / share
        words = f"lowering: {share:.0%}, {compiled} compiled, about {left:.0f} s left"
        self._stream.write(f"{words}{', now ' + what if what else ''}\n")
        self._stream.flush()


class Bar:
    """A live bar with an estimate of the time that is left."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Rich

        self._rich = Rich(
            TextColumn("lowering"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}"),
            console=Console(file=stream),
            transient=True,
        )
        self._begin = time.monotonic()
        self._task = self._rich.add_task("", total=1.0, left="", visible=False)

    def __enter__(self) -> Self:
        self._rich.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._rich.stop()

    def begin(self, units: int) -> None:
        """So many units are to be done."""
        self._begin = time.monotonic()
        self._rich.update(self._task, visible=True, description=f"{units} op tests and targets")

    def at(self, share: float, compiled: int, what: str) -> None:
        """This share is done."""
        left = (time.monotonic() - self._begin) * (1 - share) / share if share else 0.0
        name = what.rpartition("triton.")[2]
        words = f"{compiled} compiled {name}"
        self._rich.update(
            self._task, completed=share, left=f"about {left:.0f} s left", description=words
        )


def chosen(stream: TextIO) -> Bar | Lines:
    """A bar where there is a terminal."""
    return Bar(stream) if stream.isatty() else Lines(stream)
