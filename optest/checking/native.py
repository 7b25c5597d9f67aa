"""The pass over memory in compiled loops: csrc/compare.cpp."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from optest import native
from optest.checking.decode import codes_of
from optest.checking.domain import FP4X2
from optest.checking.table import COLUMNS, Bounds, Table, block_of

if TYPE_CHECKING:
    from optest.checking.pair import Pair


def can_scan(pair: Pair) -> bool:
    """Whether the compiled loops read this pair: on the CPU, of one dtype, not a lazy negation."""
    a, b = pair.a, pair.b
    plain = not (a.is_neg() or b.is_neg() or a.dtype.is_complex or a.dtype == FP4X2)
    return a.device.type == "cpu" and a.dtype == b.dtype and plain and native.available()


def scan(pair: Pair, bounds: Bounds) -> Table:
    """One row for each block, as ``Table`` describes."""
    block = block_of(pair.positions)
    blocks = -(-pair.positions // block)
    rows = torch.empty((blocks, len(COLUMNS)), dtype=torch.float64, device="cpu")
    codes = codes_of(pair.a.dtype)
    native.csrc("compare").compare_scan(
        pair.a if codes is None else pair.a.view(torch.uint8),
        pair.b if codes is None else pair.b.view(torch.uint8),
        codes,
        bounds.rtol,
        bounds.atol,
        bounds.equal_nan,
        bounds.gross_floor,
        block,
        rows,
    )
    return Table(rows, block)
