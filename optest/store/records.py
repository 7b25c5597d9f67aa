"""What a store holds, as plain records: runs, what each planned, what became of each case.

Everything in them is JSON: text, numbers, booleans, None, lists and dicts. NaN and infinities of
results are None or text, as the events have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

GOOD = ("passed", "empty", "skipped")
BAD = ("failed", "error", "crashed", "hung")


@dataclass(frozen=True)
class Place:
    """What a run, or one node of it, was measured on.

    Attributes:
        gfx: what ``get_gfx()`` answers there: ``gfx942``, ``sm_90``, ``cpu``.
        device: the name of the GPU or CPU.
        driver: of the GPU; empty on a CPU.
        versions: of python, torch, triton and the compiler, where they are there.
    """

    host: str = ""
    gfx: str = ""
    device: str = ""
    driver: str = ""
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunFacts:
    """What is known when a run begins.

    Attributes:
        commit: full hash, empty outside a repository.
        dirty: whether tracked files differed from it.
        environment: the variables that change results, by name.
        arguments: how the run was asked for, enough to ask for it again.
    """

    commit: str = ""
    branch: str = ""
    dirty: bool = False
    mode: str = "run"
    optest: str = ""
    place: Place = field(default_factory=Place)
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Planned:
    """One unit of a run: a case, or a script that is run whole.

    Attributes:
        id: the case's id; of a script that is run whole its file name, which holds no ``::``.
        file: the op test, relative to the folder that the run was started in where it lies below.
        function: the test function; empty for a whole script.
        where: the kind of node it is for (``gfx942``); empty where there is but one.
        position: its place in the order in which tables are printed.
        table: what the script calls the table that its row stands in; empty where not known.
    """

    id: str
    file: str
    function: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    where: str = ""
    position: int = 0
    table: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it one of its run."""
        return (self.file, self.id, self.where)

    @property
    def whole(self) -> bool:
        """Whether it is a script that is run whole."""
        return "::" not in self.id


@dataclass(frozen=True)
class Result:
    """What became of one unit, or of a case that a whole script ran.

    Attributes:
        status: passed, failed, error, empty, skipped; crashed where its process died, hung where
            it took longer than its time limit.
        reason: one line; empty where it passed.
        text: what there is to read of a failure: traceback, last lines of output, the stacks of a
            crash.
        row: the returned columns in order; a timing and a verdict are the dicts of their
            ``to_dict``.
        checks: ``{"verdict": …}`` for each check, in order.
        peak_bytes: the most memory its process held while it ran; None where not known.
        device_peak_bytes: the same of the device's memory.
        neighbours: most other cases that ran on the same machine at any time while it did.
        left: what it left changed in its process, which was put right or replaced.
        started: seconds since the epoch.
    """

    planned: Planned
    status: str
    reason: str = ""
    text: str = ""
    seconds: float = 0.0
    seed: int | None = None
    row: dict[str, Any] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    unguarded: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    peak_bytes: int | None = None
    device_peak_bytes: int | None = None
    neighbours: int = 0
    place: Place = field(default_factory=Place)
    started: float = 0.0

    @property
    def good(self) -> bool:
        """Whether nothing about it makes a run fail."""
        return self.status in GOOD


@dataclass(frozen=True)
class Run:
    """A run as the store has it.

    Attributes:
        state: running, complete or interrupted; one whose process was killed is still ``running``.
        started: seconds since the epoch.
        ended: the same; None while it runs.
        totals: how many units have each status, and ``missing`` how many have none yet.
    """

    id: str
    facts: RunFacts
    state: str
    started: float
    ended: float | None = None
    totals: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Expected:
    """What earlier runs say of a case: how long it took, how much memory it held."""

    seconds: float
    peak_bytes: int | None = None
    device_peak_bytes: int | None = None


@dataclass(frozen=True)
class Ceiling:
    """One thing that was measured of what a machine can do.

    Attributes:
        kind: ``read``, ``copy``, ``matrix`` or ``launch``.
        name: of a bandwidth its memory level (``L1``, ``L2``, ``L3``, ``memory``), of a matrix
            rate its dtype (``bf16``), of a launch what was launched.
        threads: of the CPU that took part; 0 on a GPU.
        value: bytes a second (of a copy those read and those written), operations a second, or
            microseconds of a launch.
        nbytes: of a bandwidth the bytes that were gone through; of a matrix rate those of the
            operands and the result; 0 of a launch.
    """

    kind: str
    name: str
    threads: int
    value: float
    nbytes: int = 0


@dataclass(frozen=True)
class Peaks:
    """What a machine can do, as measured at one time.

    Attributes:
        measured: seconds since the epoch.
    """

    place: Place
    measured: float
    ceilings: tuple[Ceiling, ...] = ()

    def best(self, kinds: Iterable[str], name: str) -> Ceiling | None:
        """The highest ceiling of these kinds and this name; None where there is none."""
        wanted = {*kinds}
        found = (each for each in self.ceilings if each.kind in wanted and each.name == name)
        return max(found, key=lambda each: each.value, default=None)


def is_timing(value: object) -> bool:
    """Whether a column's value is what ``Timing.to_dict`` wrote."""
    return isinstance(value, dict) and "median_us" in value and "samples_us" in value


def is_verdict(value: object) -> bool:
    """Whether a column's value is what ``Verdict.to_dict`` wrote."""
    return isinstance(value, dict) and "tolerance" in value and "counts" in value
