"""What a pass over memory brings back: one row of sums and maxima for each block."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch

GROSS_FACTOR = 16.0
COLUMNS = (
    "mismatched",
    "nonfinite",
    "gross",
    "different",
    "nan_reference",
    "nan_candidate",
    "inf_reference",
    "inf_candidate",
    "sum_reference",
    "sum_difference",
    "max_abs",
    "peak",
    "margin",
)
MAXIMA = frozenset({"max_abs", "peak", "margin"})
_BLOCK = 1 << 16
_MAX_BLOCKS = 1 << 16


def block_of(positions: int, least: int = _BLOCK) -> int:
    """Positions in a block: ``least``, more where that would give over 2^16 blocks."""
    block = least
    while positions > block * _MAX_BLOCKS:
        block *= 2
    return block


@dataclass(frozen=True)
class Table:
    """One row for each block of ``block`` positions, columns as in ``COLUMNS``, fp64 on the CPU.

    ``mismatched``, ``nonfinite`` (mismatched with a NaN or Inf in it), ``gross`` (see
    ``Bounds.gross_floor``) and ``different`` (integers that differ inside the bound) count values,
    so do the NaN and Inf columns. ``sum_reference`` is of squares over finite references,
    ``sum_difference`` over pairs that are both finite, as are ``max_abs`` and ``peak`` (largest
    finite |reference|). ``margin`` is the largest ``|a-b| - |a|/2`` among values off by more than
    16 bounds, -inf where there is none: compared with rms/4, which is known only when all blocks
    are read, it decides whether anything is grossly wrong. Exact integers are ids, none further
    off than another: sums, gross and margin stay empty for them.
    """

    rows: torch.Tensor
    block: int

    def column(self, name: str) -> torch.Tensor:
        """One column, one entry a block."""
        return self.rows[:, COLUMNS.index(name)]

    @functools.cached_property
    def _totals(self) -> dict[str, float]:
        rows = self.rows.numpy()  # torch would wake its threads for so little
        if len(rows) == 1:
            return dict(zip(COLUMNS, rows[0].tolist(), strict=True))
        sums, maxima = rows.sum(0).tolist(), rows.max(0).tolist()
        both = zip(COLUMNS, sums, maxima, strict=True)
        return {name: most if name in MAXIMA else total for name, total, most in both}

    def total(self, name: str) -> float:
        """A column's sum, or its maximum where it holds maxima."""
        return self._totals[name]

    def count(self, name: str) -> int:
        """``total`` of a column that counts."""
        return int(self._totals[name])


@dataclass(frozen=True)
class Bounds:
    """What one pass needs of the tolerance.

    Attributes:
        rtol: as in ``Tolerance``.
        atol: as in ``Tolerance``.
        equal_nan: as in ``Tolerance``.
        gross_floor: rms of the reference / 4; inf on the first pass, which does not know it yet
            and counts nothing as gross.
        peak: fill the column of that name for values of ordinary size too.
    """

    rtol: float
    atol: float
    equal_nan: bool = False
    gross_floor: float = math.inf
    peak: bool = False
