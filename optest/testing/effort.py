"""How much a benchmark is to do: the numbers that upstream's signature takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optest import settings
from optest.errors import UsageError


@dataclass(frozen=True)
class Effort:
    """Least times and counts; None leaves it to the stopping rule (``OPTEST_BUDGET_S``).

    Attributes:
        warmup_min_time: seconds of untimed calls.
        warmup_min_iters: how many they are at least.
        perf_trials_min_time: seconds that sampling takes.
        perf_trials_min_iters: timed calls.
        auto_replicate_inputs_size: bytes that copies of the inputs are to fill; 0 makes none.

    Raises:
        UsageError: a value that nothing can be done with; the message names it.
    """

    warmup_min_time: float | None = None
    warmup_min_iters: int | None = None
    perf_trials_min_time: float | None = None
    perf_trials_min_iters: int | None = None
    auto_replicate_inputs_size: int = 0

    def __post_init__(self) -> None:
        for name in ("warmup_min_time", "perf_trials_min_time"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0.0 <= value < math.inf):
                raise UsageError(f"{name}={value!r}: expected seconds, zero or more")
        counts = ("warmup_min_iters", "perf_trials_min_iters", "auto_replicate_inputs_size")
        for name in counts:
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 <= value == int(value)):
                raise UsageError(f"{name}={value!r}: expected a whole number, zero or more")

    @property
    def budget_s(self) -> float:
        """What the stopping rule may spend."""
        return self.perf_trials_min_time or settings.get_float("OPTEST_BUDGET_S")

    def missing(self, taken: int, elapsed_s: float) -> int:
        """Calls that the least time and count still ask for, after ``taken`` in ``elapsed_s``."""
        count = (self.perf_trials_min_iters or 0) - taken
        left_s = (self.perf_trials_min_time or 0.0) - elapsed_s
        if taken and left_s > 0.0:
            count = max(count, math.ceil(left_s * taken / elapsed_s))
        return max(0, count)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # noqa: PLR0124
