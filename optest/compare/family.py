"""Many comparisons at once: how sure all are together, and what they come to on average."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optest.compare import student
from optest.compare.padded import Floats

_RESAMPLES = 2000


@dataclass(frozen=True)
class Mean:
    """A geometric mean of ratios.

    Attributes:
        low: between this and ``high`` it lies, 95 %; 0 and infinity where nothing can be said.
        count: of how many ratios.
    """

    ratio: float
    low: float
    high: float
    count: int


def benjamini_hochberg(p: Sequence[float] | Floats) -> Floats:
    """Adjusted p of a family, in the order given.

    Calling all below a level holds the expected share of false ones among them at that level
    (Benjamini and Hochberg, J. R. Stat. Soc. B 57, 1995).
    """
    values = np.asarray(p, float)
    order = np.argsort(-values)
    ranks = np.arange(len(values), 0, -1)
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum.accumulate(np.minimum(values[order] * len(values) / ranks, 1.0))
    return adjusted


def geometric_mean(ratios: Sequence[float] | Floats, shared: float = 0.0) -> Mean:
    """The geometric mean of ratios above zero, and between what it lies.

    The interval is a bootstrap over the ratios, as though they were drawn from more of their kind,
    widened by what all of them share and no number of cases averages out.

    Args:
        ratios: one a case.
        shared: standard deviation of that share, of the logarithm; 0.01 is 1 %.

    Raises:
        ValueError: there is none, or one is not above zero.
    """
    logs = np.asarray(ratios, float)
    if not logs.size or not np.all(logs > 0.0):
        raise ValueError("ratios of times: expected at least one, all above zero")
    logs = np.log(logs)
    mean = float(logs.mean())
    if logs.size == 1:
        return Mean(math.exp(mean), 0.0, math.inf, 1)
    low, high = np.quantile(_means(logs), (0.025, 0.975))
    # The percentile interval of few values is too narrow by this (Hesterberg, Am. Stat. 69, 2015).
    wider = np.sqrt(logs.size / (logs.size - 1.0))
    below = float(np.hypot(wider * (mean - low), student.Z95 * shared))
    above = float(np.hypot(wider * (high - mean), student.Z95 * shared))
    return Mean(math.exp(mean), math.exp(mean - below), math.exp(mean + above), logs.size)


def _means(logs: Floats) -> Floats:
    """Means of resamples; by their normal limit where there are so many that it is exact enough."""
    generator = np.random.default_rng(0)
    if logs.size > _RESAMPLES:
        return generator.normal(logs.mean(), logs.std() / np.sqrt(logs.size), _RESAMPLES)
    drawn: Floats = logs[generator.integers(0, logs.size, (_RESAMPLES, logs.size))]
    return np.asarray(drawn.mean(axis=1))
