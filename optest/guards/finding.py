"""What a guard found: which guard, what it saw, and what that means."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A reason not to believe a candidate, or to look at it again.

    Attributes:
        guard: name of the guard, as docs/trust.md lists them.
        evidence: what was seen, with numbers.
        meaning: what follows from it, or what to write where the test meant it.
        declarable: whether the test can declare it as meant, through ``@benchmark(…)``; under cheap
            guards such a finding is a warning.
    """

    guard: str
    evidence: str
    meaning: str
    declarable: bool = False

    def __str__(self) -> str:
        return f"{self.guard}: {self.evidence}; {self.meaning}"
