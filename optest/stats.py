"""Order statistics of a handful of samples, and what can be said of the median they came from."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

Samples = Sequence[float]


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
