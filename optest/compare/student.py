"""Student's t for whole degrees of freedom."""

from __future__ import annotations

import math

Z95 = 1.959964  # 5 % of a standard normal lie farther from 0


def two_sided(t: float, freedom: int) -> float:
    """Probability that Student's t is at least as far from 0 as ``t``.

    The finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.

    Raises:
        ValueError: ``freedom`` is below 1.
    """
    if freedom < 1:
        raise ValueError(f"freedom={freedom}: expected at least 1 degree of freedom")
    angle = math.atan(abs(t) / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for n in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * n / (n + 1)
    total *= math.sin(angle)
    inside = 2.0 / math.pi * (angle + total) if odd else total
    return min(1.0, max(0.0, 1.0 - inside))


def quantile(two_sided_p: float, freedom: int) -> float:
    """The t that ``two_sided`` gives this probability, by bisection."""
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > two_sided_p:
        high *= 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if two_sided(middle, freedom) > two_sided_p else (low, middle)
    return (low + high) / 2.0
