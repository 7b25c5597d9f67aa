"""What a sweep needs of the machines it runs on: one process tree here, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from optest.store.records import Expected, Place, Planned, Result

if TYPE_CHECKING:
    from typing_extensions import Self

Take = Callable[[Result], None]
Begin = Callable[[Planned], None]


@dataclass(frozen=True)
class Limits:
    """What one case may use before it is stopped, and recorded as stopped.

    Attributes:
        seconds: time from its start.
        memory_bytes: resident memory of its process and their children; None for no limit.
        output_bytes: what it may print.
    """

    seconds: float = 600.0
    memory_bytes: int | None = None
    output_bytes: int = 64 << 20


@dataclass(frozen=True)
class Job:
    """How every op test of a sweep is to be run.

    Attributes:
        argv: the op tests' own arguments; None for each script's ``SMOKE`` list.
        mode: run, or check for correctness only.
        guards: off, cheap or full.
        folder: where the scripts run; ``Planned.file`` is relative to it.
    """

    argv: tuple[str, ...] | None = ()
    mode: str = "run"
    guards: str = "cheap"
    folder: Path = field(default_factory=Path.cwd)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Collection:
    """What collecting one file on one kind of node found.

    Attributes:
        planned: its cases, or one unit for a script that is to be run whole.
        gated: why it asked for no case there: its own last warning.
        whole: why it cannot be collected and is run whole; there is one unit then.
        fault: why it cannot be run at all: it cannot be imported, is no op test, hung or crashed.
    """

    file: str
    where: str = ""
    planned: tuple[Planned, ...] = ()
    gated: str = ""
    whole: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Work:
    """A planned unit and what is known of it from earlier runs."""

    planned: Planned
    expected: Expected | None = None


class Executor(Protocol):
    """Collects and runs; a context manager that leaves no process behind."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    @property
    def width(self) -> int:
        """How many units it runs at a time, for the estimate of what is left."""

    def place(self) -> Place:
        """What it runs on; of a cluster, its head."""

    def collect(self, files: Sequence[str], tell: Callable[[Collection], None]) -> list[Collection]:
        """Find the cases of each file on each kind of node, running none; in the order given.

        ``tell`` is called with each as it is found. No fault of a file is raised.
        """

    def run(self, work: Sequence[Work], begin: Begin, take: Take) -> None:
        """Run every unit once and return when none is left.

        ``begin`` and ``take`` are called one at a time, from any thread. A unit's next on the same
        worker does not start before ``take`` has returned, so what was taken is kept. Of a whole
        script each case it ran is taken, then the script itself.

        After ``stop`` it returns as soon as what runs has been ended; that is not taken.
        """

    def stop(self) -> None:
        """End what runs, soon. May be called from another thread or a signal handler."""
