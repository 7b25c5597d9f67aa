"""Order statistics of a handful of samples, and what can be said of the median they came from."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence

Samples = Sequence[float]
_FEWEST = 6


def median(samples: Samples) -> float:
    """Middle of the samples; of an even number, the mean of the two in the middle.

    Raises:
        ValueError: there are no samples.
    """
    return quantile(samples, 0.5)


def mean(samples: Samples) -> float:
    """Arithmetic mean, summed without rounding on the way.

    Raises:
        ValueError: there are no samples.
    """
    return math.fsum(samples) / len(_some(samples))


def quantile(samples: Samples, share: float) -> float:
    """Value below which ``share`` of the samples lie, linear between neighbours (numpy's default).

    Raises:
        ValueError: there are no samples, or ``share`` is outside [0, 1].
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share={share!r}: expected a number from 0 to 1")
    ordered = sorted(_some(samples))
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    # Written as a sum of weights of one: two equal neighbours give themselves back exactly.
    part = position - low
    if part == 0.0 or ordered[low] == ordered[high]:
        return float(ordered[low])
    return ordered[low] * (1.0 - part) + ordered[high] * part


def median_interval(samples: Samples, confidence: float = 0.95) -> tuple[float, float]:
    """Two of the samples between which the median of their source lies with ``confidence``.

    No distribution is assumed. The number of samples below the true median is binomial(n, 1/2), so
    the interval from the k-th smallest to the k-th largest sample misses it with probability
    2 * P(binomial(n, 1/2) < k); k is the largest for which that is at most 1 - ``confidence``
    (David and Nagaraja, Order Statistics, section 7.1). Fewer samples than it takes (6 for 95 %)
    give (-inf, inf): nothing can be said yet.

    Raises:
        ValueError: there are no samples, or ``confidence`` is not between 0 and 1.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence={confidence!r}: expected a number between 0 and 1")
    ordered = sorted(_some(samples))
    rank = _rank(len(ordered), confidence)
    if rank == 0:
        return -math.inf, math.inf
    return float(ordered[rank - 1]), float(ordered[-rank])


def median_ratio_interval(
    numerator: Samples,
    denominator: Samples,
    confidence: float = 0.95,
    resamples: int = 4000,
) -> tuple[float, float]:
    """Between what ``median(numerator) / median(denominator)`` lies with ``confidence``.

    A percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, section 13.3):
    both sides are drawn anew with replacement, independently. The median of a resample is drawn
    as the order statistic it is, so that a draw costs the same for any number of samples. Draws
    are seeded: the same samples give the same interval. Fewer than 6 samples on a side give
    (0, inf): nothing can be said yet.

    Raises:
        ValueError: a side has no samples, or ``confidence`` is not between 0 and 1.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence={confidence!r}: expected a number between 0 and 1")
    upper, lower = sorted(_some(numerator)), sorted(_some(denominator))
    if min(len(upper), len(lower)) < _FEWEST:
        return 0.0, math.inf
    draws = random.Random(0)  # noqa: S311 - resampling, no secret
    ratios = [
        _resampled_median(upper, draws) / _resampled_median(lower, draws) for _ in range(resamples)
    ]
    tail = (1.0 - confidence) / 2.0
    return quantile(ratios, tail), quantile(ratios, 1.0 - tail)


def relative_half_width(interval: tuple[float, float], centre: float) -> float:
    """Half the width of ``interval`` as a share of ``centre``; infinite where it has no meaning."""
    low, high = interval
    if not centre > 0.0 or not math.isfinite(high - low):
        return math.inf
    return (high - low) / (2.0 * centre)


def _some(samples: Samples) -> Samples:
    if len(samples) == 0:
        raise ValueError("no samples: expected at least one")
    return samples


def _resampled_median(ordered: Samples, draws: random.Random) -> float:
    """Median of as many samples drawn from ``ordered``, which is sorted, with replacement.

    The k-th smallest of n uniform numbers is beta(k, n - k + 1), and the next above it lies where
    the least of the n - k others does in what is left.
    """
    count = len(ordered)
    rank = (count + 1) // 2
    position = draws.betavariate(rank, count - rank + 1)
    low = ordered[min(int(position * count), count - 1)]
    if count % 2:
        return low
    position += (1.0 - position) * draws.betavariate(1, count - rank)
    return (low + ordered[min(int(position * count), count - 1)]) / 2.0


@functools.lru_cache(maxsize=4096)
def _rank(count: int, confidence: float) -> int:
    """Largest k with 2 * P(binomial(count, 1/2) < k) <= 1 - confidence; 0 where there is none."""
    allowed = (1.0 - confidence) / 2.0
    below = 0.0
    for rank in range(count // 2 + 1):
        below += _binomial_half(count, rank)
        if below > allowed:
            return rank
    return count // 2


def _binomial_half(count: int, hits: int) -> float:
    """P(binomial(count, 1/2) = hits), in logarithms: 2^-count alone underflows above 1074."""
    log = math.lgamma(count + 1) - math.lgamma(hits + 1) - math.lgamma(count - hits + 1)
    return math.exp(log - count * math.log(2.0))
