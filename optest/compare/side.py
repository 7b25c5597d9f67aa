"""One side of a comparison: what was measured, of which case, where and how."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optest.store.records import Place

WHOLE = ""  # the candidate of what belongs to a case as a whole


@dataclass(frozen=True, slots=True)
class Cell:
    """What one candidate of one case came to.

    Attributes:
        us: median time of a call in microseconds; NaN where it was not timed.
        samples: times of the calls in the order made; empty where only ``us`` is known.
        blocks: how many of the samples came from each block, of a run that was measured in turn.
        wrong: why its result is not right; empty where it is.
        clock: what measured it; empty where not known.
        cache: ``cold`` or ``warm``; empty where not known.
        contended: most calls were preempted, so ``us`` is only a bound from above.
    """

    us: float = math.nan
    samples: Sequence[float] = ()
    wrong: str = ""
    clock: str = ""
    cache: str = ""
    contended: bool = False
    blocks: Sequence[int] = ()

    @property
    def timed(self) -> bool:
        """Whether there is a time."""
        return not math.isnan(self.us)


@dataclass(frozen=True, slots=True)
class Case:
    """A case and its candidates.

    Attributes:
        id: of a run the case's id; of a pasted table its title and left columns.
        file: the op test; empty where not known.
        table: the title of the table that it stands in, or the test function.
        arguments: text of each left column, by name.
        where: the kind of node; empty where there is but one.
        gfx: what it ran on; empty where not known.
        wrong: why the case as a whole is not good; empty where it is.
        cells: by candidate, in order.
    """

    id: str
    file: str = ""
    table: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    where: str = ""
    gfx: str = ""
    wrong: str = ""
    cells: Mapping[str, Cell] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Its id, and the kind of node where there are several."""
        return f"{self.id} on {self.where}" if self.where else self.id


@dataclass(frozen=True)
class Side:
    """All of one side.

    Attributes:
        name: what a reader calls it: a run with its commit, a file.
        cases: in order.
        places: what they were measured on, each once; of a pasted table the ``gfx`` that it says.
        settings: what may change results, by name: mode, environment variables.
        versions: of what was used; a difference is worth a note.
        pasted: it is read from a markdown table: rounded, and without samples.
        pair: what both sides of one measurement in turn say alike; empty where it is none.
        notes: what a reader has to know of how it was read.
    """

    name: str
    cases: Sequence[Case]
    places: Sequence[Place] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    pasted: bool = False
    pair: str = ""
    notes: Sequence[str] = ()
