"""Whether a time changed between two versions, by how much, and how sure that is.

Two ways, for two kinds of evidence. ``unpaired_changes`` takes two runs made one after the other;
it cannot tell a change from a machine that became slower between them, so it widens what it says
by a drift. ``paired_change`` takes blocks of both versions made in turn, in which drift cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from optest.compare import drift as drifts
from optest.compare import ranks, resampling, student
from optest.compare.drift import DRIFT
from optest.compare.family import Mean, benjamini_hochberg, geometric_mean
from optest.compare.padded import Floats, Samples, pairs
from optest.compare.ranks import mann_whitney
from optest.compare.verdict import Verdict, of_change

__all__ = [
    "DRIFT",
    "Change",
    "Changes",
    "Mean",
    "Verdict",
    "benjamini_hochberg",
    "geometric_mean",
    "mann_whitney",
    "of_change",
    "paired_change",
    "unpaired_change",
    "unpaired_changes",
]

FEWEST_BLOCKS = 4
_TRIMMED = 0.2
_RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Change:
    """Head's time over base's: above 1 is slower.

    Attributes:
        ratio: of the medians; NaN where a side has no samples.
        low: between this and ``high`` it lies, 95 %; 0 and infinity where nothing can be said.
        p: two-sided, that nothing changed; before any adjustment for a family.
    """

    ratio: float
    low: float
    high: float
    p: float

    @property
    def interval(self) -> tuple[float, float]:
        """Low and high."""
        return self.low, self.high


@dataclass(frozen=True)
class Changes:
    """The same of many pairs, an array each.

    Attributes:
        drift: standard deviation between runs that the intervals and p allow for.
        scatter: what the ratios themselves showed of it beyond their own noise.
        common: the median of all ratios.
    """

    ratio: Floats
    low: Floats
    high: Floats
    p: Floats
    drift: float
    scatter: float
    common: float

    def __getitem__(self, at: int) -> Change:
        return Change(
            float(self.ratio[at]), float(self.low[at]), float(self.high[at]), float(self.p[at])
        )

    def adjusted(self) -> Iterator[tuple[Change, float]]:
        """Each change in order, and its p adjusted for the family of all of them."""
        columns = (self.ratio, self.low, self.high, self.p, benjamini_hochberg(self.p))
        for *change, p in zip(*(each.tolist() for each in columns), strict=True):
            yield Change(*change), p


def unpaired_change(base: Samples, head: Samples, drift: float | None = None) -> Change:
    """The change between two measurements that were made one after the other.

    Args:
        base: samples of one measurement, in the order made, above zero.
        head: the same of the other version.
        drift: as of ``unpaired_changes``.
    """
    return unpaired_changes([base], [head], drift)[0]


def unpaired_changes(
    base: Sequence[Samples],
    head: Sequence[Samples],
    drift: float | None = None,
) -> Changes:
    """The changes between two runs that were made one after the other.

    The interval is a bootstrap of the ratio of medians. It is widened where samples that follow
    each other are alike, and by how far apart two runs of one version are. p is the larger of
    Mann-Whitney's and that of the logarithm of the ratio against the noise and the drift together.

    Args:
        base: samples of each measurement of one run, in the order made, above zero.
        head: the same of the other run; as many.
        drift: standard deviation of the logarithm of a ratio between two runs of one version on
            this machine, 0.01 is 1 %; None where it is to be found, as ``drift.found`` does.

    Raises:
        ValueError: the sides are not as long as each other.
    """
    ratio, low, high, z = (np.zeros(len(base)) for _ in range(4))
    for pair in pairs(base, head):
        factor, plain_z = ranks.z_scores(pair)
        logs = resampling.log_ratios(pair)
        wider = np.sqrt(factor)
        ratio[pair.at] = logs[0]
        low[pair.at] = (logs[0] - logs[1]) * wider
        high[pair.at] = (logs[2] - logs[0]) * wider
        z[pair.at] = plain_z / wider
    noise = (low + high) / 2.0 / student.Z95
    if drift is not None:
        apart = drifts.given(drift, ratio)
    else:
        apart = drifts.found(base, head, ratio, noise)
    p = np.maximum([ranks.two_sided(each) for each in z], apart.p(ratio, noise))
    beside = apart.half_width()
    low, high = (np.hypot(np.maximum(side, 0.0), beside) for side in (low, high))
    with np.errstate(invalid="ignore"):
        below, above = np.exp(ratio - low), np.exp(ratio + high)
    unknown = np.isnan(ratio)
    below[unknown], above[unknown] = 0.0, np.inf
    common = math.exp(apart.common)
    return Changes(np.exp(ratio), below, above, p, apart.typical, apart.scatter, common)


def paired_change(base_blocks: Sequence[Samples], head_blocks: Sequence[Samples]) -> Change:
    """The change between versions that took turns, in blocks of both made close to each other.

    The n-th block of base and the n-th of head were made in the same stretch of time, best as
    base, head, head, base, so that a machine that grows slower does so for both. Of each pair of
    blocks only the logarithm of the ratio of medians counts: samples of one process are alike in
    ways that no number of them averages out. The blocks' ratios are averaged without their lowest
    and highest fifth, so that a burst of another program's work spoils no result.

    The interval is a bootstrap over blocks (a cluster bootstrap: Davison and Hinkley, Bootstrap
    Methods, section 3.8), widened for their small number by Student's t; p is the trimmed t test's
    (Tukey and McLaughlin, Sankhya A 25, 1963). Neither knows anything below 4 blocks.

    Raises:
        ValueError: the sides have unequal numbers of blocks, a block has no samples or a median
            that is not above zero.
    """
    if len(base_blocks) != len(head_blocks):
        raise ValueError(
            f"{len(base_blocks)} blocks of base, {len(head_blocks)} of head: expected as many"
        )
    logs = np.sort(
        [_log_median(h) - _log_median(b) for b, h in zip(base_blocks, head_blocks, strict=True)]
    )
    count = len(logs)
    if count == 0:
        return Change(math.nan, 0.0, math.inf, 1.0)
    cut = int(_TRIMMED * count)
    middle = float(logs[cut : count - cut].mean())
    if count < FEWEST_BLOCKS:
        return Change(math.exp(middle), 0.0, math.inf, 1.0)
    freedom = count - 2 * cut - 1
    held = np.clip(logs, logs[cut], logs[count - cut - 1])
    kept = freedom + 1
    # By itself the test of few blocks calls 1.4 % of unchanged ones at 1 %; so widened, 1.1 %.
    few = math.sqrt(count / (count - 1.0))
    error = few * math.sqrt(float(((held - held.mean()) ** 2).sum()) / (kept * freedom))
    p = student.two_sided(middle / error, freedom) if error > 0.0 else float(middle == 0.0)
    drawn = np.random.default_rng(0).integers(0, count, (_RESAMPLES, count))
    means = np.sort(logs[drawn], axis=1)[:, cut : count - cut].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    wider = student.quantile(0.05, freedom) / student.Z95 * few
    return Change(
        math.exp(middle),
        math.exp(middle - wider * (middle - low)),
        math.exp(middle + wider * (high - middle)),
        p,
    )


def _log_median(block: Samples) -> float:
    median = float(np.median(block)) if len(block) else math.nan
    if not median > 0.0:
        raise ValueError(f"a block with the median {median}: expected samples, above zero")
    return math.log(median)
