"""When there are enough samples: one rule for every clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optest import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_CALLS = 10
MOST_CALLS = 2_000
PRECISION = 0.01
_LEAST_LONG_CALLS = 3
_LONG_S = 5.0


@dataclass(frozen=True)
class Progress:
    """What the loop knows when it asks whether to go on.

    Attributes:
        taken: calls timed so far, those to be dropped included.
        kept_us: their times, without those to be dropped, overhead included.
        overhead_us: times of the no-op so far; empty where none is timed.
        elapsed_s: seconds since sampling began, everything included.
    """

    taken: int
    kept_us: Sequence[float]
    overhead_us: Sequence[float]
    elapsed_s: float


@dataclass(frozen=True)
class Stopping:
    """Exactly ``num_iters`` calls; without it, until the median is known or the time is spent.

    The last call is made apart (on inputs as given), so the rule counts to one less.

    The median is known when the 95 % confidence interval of the net median is within 1 % of it.
    At least 10 calls are made however long they take, with one exception: where a call alone
    outlasts the budget and ten would take more than 5 s, three are enough if they agree within 1 %.
    """

    num_iters: int | None
    budget_s: float

    def more(self, now: Progress) -> int:
        """How many calls to make before asking again; 0 is enough."""
        if self.num_iters is not None:
            return self.num_iters - 1 - now.taken
        if now.taken == 0:
            return 1
        each_s = now.elapsed_s / now.taken
        if now.taken < LEAST_CALLS - 1:
            if each_s <= self.budget_s or LEAST_CALLS * each_s <= _LONG_S:
                return LEAST_CALLS - 1 - now.taken
            return 0 if _agree(now) else 1
        left_s = self.budget_s - now.elapsed_s
        if left_s < each_s or now.taken >= MOST_CALLS - 1 or _known(now):
            return 0
        return max(1, min(now.taken // 2, int(left_s / each_s), MOST_CALLS - 1 - now.taken))


def net_interval(kept_us: Sequence[float], overhead_us: Sequence[float]) -> tuple[float, float]:
    """95 % confidence interval of median(kept) - median(overhead), in microseconds.

    The two medians err independently, so their half-widths add as squares.
    """
    low, high = stats.median_interval(kept_us)
    centre = stats.median(kept_us)
    if not overhead_us:
        return low, high
    off = stats.median(overhead_us)
    off_low, off_high = stats.median_interval(overhead_us)
    below = math.hypot(centre - low, off_high - off)
    above = math.hypot(high - centre, off - off_low)
    return centre - off - below, centre - off + above


def _known(now: Progress) -> bool:
    if not now.kept_us:
        return False
    net = stats.median(now.kept_us) - (stats.median(now.overhead_us) if now.overhead_us else 0.0)
    interval = net_interval(now.kept_us, now.overhead_us)
    return stats.relative_half_width(interval, net) <= PRECISION


def _agree(now: Progress) -> bool:
    if now.taken < _LEAST_LONG_CALLS - 1 or not now.kept_us:
        return False
    spread = (min(now.kept_us), max(now.kept_us))
    return stats.relative_half_width(spread, stats.median(now.kept_us)) <= PRECISION
