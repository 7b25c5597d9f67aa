"""Mann-Whitney: whether samples of one measurement are larger than those of another."""

from __future__ import annotations

import math

import numpy as np

from optest.compare.padded import Floats, Integers, Pairs, Rows, Samples, pairs

_BATCHES = 8
_FEWEST = 2 * _BATCHES  # samples of a side, below which nothing is known of how they hang together


def mann_whitney(base: Samples, head: Samples) -> float:
    """Two-sided p that the samples of both sides come from one distribution.

    The normal approximation with continuity and the correction for ties (Lehmann, Nonparametrics,
    section 1.3): not below the exact p where that is small and sides are too. 1 where a side has
    no samples.
    """
    (pair,) = pairs([base], [head])
    _, z = z_scores(pair)
    return two_sided(float(z[0]))


def two_sided(z: float) -> float:
    """Probability that a standard normal value is at least as far from 0 as ``z``."""
    return math.erfc(abs(z) / math.sqrt(2.0))


def z_scores(pair: Pairs) -> tuple[Floats, Floats]:
    """For each pair, how many times wider than independent samples would have it, and z.

    Samples that follow each other are often alike. The means of the ranks of eight stretches of
    a measurement then differ more than independent ones would (the method of batch means; Law,
    Simulation Modeling and Analysis, section 9.5.3). The first array holds by how much, as the
    factor of the variance, at least 1; z is Mann-Whitney's and not yet divided by its root.
    """
    ranks, ties = _mid_ranks(np.concatenate([pair.base.values, pair.head.values], axis=1))
    width = pair.base.values.shape[1]
    base, head = pair.base.counts.astype(float), pair.head.counts.astype(float)
    rank_sum = np.where(pair.head.here, ranks[:, width:], 0.0).sum(axis=1)
    total = base + head
    away = rank_sum - head * (total + 1.0) / 2.0
    away = np.sign(away) * np.maximum(np.abs(away) - 0.5, 0.0)
    # (t^3 - t) of each group of t equal values, summed over its t members.
    here = np.concatenate([pair.base.here, pair.head.here], axis=1)
    equal = np.where(here, ties.astype(float) ** 2 - 1.0, 0.0).sum(axis=1)
    variance = base * head / 12.0 * (total + 1.0 - equal / np.maximum(total * (total - 1.0), 1.0))
    known = variance > 0.0
    z = np.where(known, away / np.sqrt(np.where(known, variance, 1.0)), 0.0)
    spread = _spread(ranks[:, :width], pair.base), _spread(ranks[:, width:], pair.head)
    weights = 1.0 / np.maximum(base, 1.0), 1.0 / np.maximum(head, 1.0)
    factor = (weights[0] * spread[0] + weights[1] * spread[1]) / (weights[0] + weights[1])
    return factor, z


def _mid_ranks(values: Floats) -> tuple[Floats, Integers]:
    """Rank of each value in its row, equal ones sharing the mean, and how many are equal to it."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    width = values.shape[1]
    places = np.broadcast_to(np.arange(width), values.shape)
    new = np.ones(values.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    last = np.ones(values.shape, bool)
    last[:, :-1] = new[:, 1:]
    first_at = np.maximum.accumulate(np.where(new, places, 0), axis=1)
    backwards = np.where(last, places, width)[:, ::-1]
    last_at = np.minimum.accumulate(backwards, axis=1)[:, ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first_at + last_at) / 2.0 + 1.0, axis=1)
    ties = np.empty(values.shape, np.int64)
    np.put_along_axis(ties, order, last_at - first_at + 1, axis=1)
    return ranks, ties


def _spread(ranks: Floats, side: Rows) -> Floats:
    """Variance between the stretches of each row over what independent samples would have."""
    counts = side.counts.astype(float)
    kept = np.where(side.here, ranks, 0.0)
    mean = kept.sum(axis=1) / np.maximum(counts, 1.0)
    off = np.where(side.here, ranks - mean[:, None], 0.0)
    within = (off**2).sum(axis=1) / np.maximum(counts - 1.0, 1.0)
    sums = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(off, axis=1)], axis=1)
    ends = np.arange(_BATCHES + 1) * side.counts[:, None] // _BATCHES
    sizes = np.maximum(np.diff(ends, axis=1), 1)
    batches = np.diff(np.take_along_axis(sums, ends, axis=1), axis=1)
    between = (batches**2 / sizes).sum(axis=1) / (_BATCHES - 1)
    known = (side.counts >= _FEWEST) & (within > 0.0)
    return np.where(known, np.maximum(between / np.where(known, within, 1.0), 1.0), 1.0)
