"""What came of the mutants of an op test: records, and what they add up to."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Fate = Literal["killed", "survived", "n/a"]


@dataclass(frozen=True)
class Where:
    """One output of one candidate of one case.

    Attributes:
        function: ``file.py::test_function``.
        case: its id.
        candidate: as the test names it.
        output: as the test names it.
        dtype: of the output.
        elements: how many a mutant may touch.
    """

    function: str
    case: str
    candidate: str
    output: str
    dtype: str
    elements: int


@dataclass(frozen=True)
class Trial:
    """One gross mutant in one output.

    Attributes:
        where: which output.
        mutant: its name.
        fate: killed; survived; n/a where it is equal to the right result or makes no sense there.
        reason: why the case failed.
        checks: of a survivor, the checks that let it through, in words.
    """

    where: Where
    mutant: str
    fate: Fate
    reason: str = ""
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resolution:
    """The smallest error of one kind that the checks of one output still see.

    Attributes:
        where: which output.
        kind: name of the ladder.
        seen: the finest step that was rejected; empty where not even the coarsest was.
        size: how large an error that is, as a share of the elements or of the value; infinite
            where none was seen.
        at_limit: whether the output can hold nothing finer; nothing at all where none was seen.
        checks: what the checks that look at the output allow, in words.
    """

    where: Where
    kind: str
    seen: str
    size: float
    at_limit: bool = False
    checks: tuple[str, ...] = ()


@dataclass
class Report:
    """Everything about one or more op tests.

    Attributes:
        trials: gross mutants.
        resolutions: what graded mutants say of the checks.
        broken: cases that fail without a mutant, and why.
        left_out: what was not tried, and why.
        gated: files that do not run on this arch, with their words.
    """

    trials: list[Trial] = field(default_factory=list)
    resolutions: list[Resolution] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    gated: list[str] = field(default_factory=list)

    @property
    def survivors(self) -> list[Trial]:
        """Gross mutants that no check rejected."""
        return [trial for trial in self.trials if trial.fate == "survived"]

    @property
    def passed(self) -> bool:
        """Whether every case passes as it is and fails with each mutant."""
        return not self.survivors and not self.broken

    def add(self, other: Report) -> None:
        """Take over what another report holds."""
        self.trials += other.trials
        self.resolutions += other.resolutions
        self.broken += other.broken
        self.left_out += other.left_out
        self.gated += other.gated

    def to_dict(self) -> dict[str, Any]:
        """As JSON-safe values."""
        made = {"passed": self.passed, **asdict(self)}
        for each in made["resolutions"]:
            each["size"] = each["size"] if math.isfinite(each["size"]) else None
        return made
