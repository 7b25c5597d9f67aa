"""What became of two sides: a line for each candidate of each case, and the whole."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optest.compare.family import Mean
from optest.compare.verdict import Verdict

_REGRESSED, _FINE = 1, 0


@dataclass(frozen=True, slots=True)
class Line:
    """One candidate of one case.

    Attributes:
        case: its id.
        candidate: empty for what belongs to the case as a whole.
        file: the op test; empty where not known.
        base_us: median in microseconds; NaN where there is none.
        ratio: head's time over base's; NaN where there is none.
        low: between this and ``high`` it lies, 95 %; 0 and infinity where that is not known.
        p: adjusted for the family; NaN where nothing was tested.
        reason: why it is wrong, now or before.
        notes: what a reader of the numbers has to know.
        failure: it is wrong, and was not known to be.
        regression: it became slower by more than the threshold.
    """

    case: str
    candidate: str
    verdict: Verdict
    file: str = ""
    base_us: float = math.nan
    head_us: float = math.nan
    ratio: float = math.nan
    low: float = 0.0
    high: float = math.inf
    p: float = math.nan
    reason: str = ""
    notes: Sequence[str] = ()
    failure: bool = False
    regression: bool = False

    @property
    def bad(self) -> bool:
        """Whether it makes the exit code 1."""
        return self.failure or self.regression

    @property
    def severity(self) -> tuple[int, float]:
        """Sorts the worst first."""
        if self.failure:
            return 0, float(_ORDER[self.verdict])
        size = abs(math.log(self.ratio)) if self.ratio > 0.0 else 0.0
        return _ORDER[self.verdict], -size


_ORDER = {
    verdict: place
    for place, verdict in enumerate(
        (
            Verdict.NOW_WRONG,
            Verdict.SLOWER,
            Verdict.GONE,
            Verdict.FASTER,
            Verdict.NOW_RIGHT,
            Verdict.NEW,
            Verdict.STILL_WRONG,
            Verdict.NOISY,
            Verdict.SAME,
            Verdict.UNTIMED,
        ),
        1,
    )
}


@dataclass(frozen=True)
class Comparison:
    """All of it.

    Attributes:
        base: what a reader calls the side.
        head: the same.
        machine: what both were measured on, in words.
        lines: in the order of the cases.
        means: by candidate, the geometric mean of head's times over base's.
        threshold: the change that matters; 0.05 is 5 %.
        differences: what the sides were not measured alike in; they were compared all the same.
        notes: what a reader has to know.
    """

    base: str
    head: str
    lines: Sequence[Line]
    machine: str = ""
    means: Mapping[str, Mean] = field(default_factory=dict)
    threshold: float = 0.05
    differences: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many lines have each verdict, the worst first."""
        counts = Counter(line.verdict for line in self.lines)
        return {verdict: counts[verdict] for verdict in _ORDER if counts[verdict]}

    @functools.cached_property
    def worst_first(self) -> list[Line]:
        """The lines, failures first, then what became slower by the size of the change."""
        return sorted(self.lines, key=lambda line: line.severity)

    @property
    def bad(self) -> list[Line]:
        """What makes the exit code 1, the worst first."""
        return [line for line in self.worst_first if line.bad]

    @property
    def exit_code(self) -> int:
        """1 where something is newly wrong or slower by more than the threshold, else 0."""
        return _REGRESSED if any(line.bad for line in self.lines) else _FINE
