"""Samples of many measurements as the rows of matrices, so that all are worked on at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = Sequence[float] | NDArray[np.float64]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ELEMENTS = 1 << 19  # of a matrix that is worked on at once: what is made of it stays in the cache
_STEP = 1.3  # between the widths of matrices, so that little of one is padding


@dataclass(frozen=True)
class Rows:
    """Measurements of about the same length.

    Attributes:
        values: a row a measurement, in the order made; behind its samples, infinity.
        counts: how many samples each row has.
    """

    values: Floats
    counts: Integers

    @property
    def here(self) -> NDArray[np.bool_]:
        """Where a sample stands, and no padding."""
        return np.arange(self.values.shape[1]) < self.counts[:, None]


@dataclass(frozen=True)
class Pairs:
    """Measurements of two sides, side by side.

    Attributes:
        at: the position of each pair among all pairs.
    """

    at: Integers
    base: Rows
    head: Rows


def pairs(base: Sequence[Samples], head: Sequence[Samples]) -> Iterator[Pairs]:
    """All pairs, those of like lengths together, a bounded number at a time.

    Raises:
        ValueError: the sides are not as long as each other.
    """
    if len(base) != len(head):
        raise ValueError(f"{len(base)} measurements against {len(head)}: expected as many")
    lengths = np.array([[len(each) for each in side] for side in (base, head)]).reshape(2, -1)
    classes = np.ceil(np.log(np.maximum(lengths, 1)) / np.log(_STEP)).astype(np.int64)
    order = np.lexsort(classes)
    ends = np.flatnonzero(np.any(np.diff(classes[:, order]), axis=0)) + 1
    for group in np.split(order, ends):
        if len(group):
            widest = int(lengths[:, group].max())
            step = max(1, _ELEMENTS // max(1, widest))
            for start in range(0, len(group), step):
                at = group[start : start + step]
                yield Pairs(at, _rows(base, at, lengths[0]), _rows(head, at, lengths[1]))


def _rows(side: Sequence[Samples], at: Integers, lengths: Integers) -> Rows:
    counts = lengths[at]
    rows = Rows(np.full((len(at), max(1, int(counts.max()))), np.inf), counts)
    rows.values[rows.here] = np.concatenate([np.asarray(side[n], np.float64) for n in at])
    return rows
