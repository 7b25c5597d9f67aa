"""The pass over memory in compiled loops: csrc/compare.cpp."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from optest import native, settings
from optest.checking.decode import codes_of
from optest.checking.domain import FP4X2
from optest.checking.table import COLUMNS, Bounds, Table, block_of

if TYPE_CHECKING:
    from optest.checking.pair import Pair


def can_scan(pair: Pair) -> bool:
    """Whether the compiled loops read this pair: on the CPU, of one dtype, not a lazy negation."""
    a, b = pair.a, pair.b
    plain = not (a.is_neg() or b.is_neg() or a.dtype.is_complex or a.dtype == FP4X2)
    return a.device.type == "cpu" and a.dtype == b.dtype and plain and _operator() is not None


def scan(pair: Pair, bounds: Bounds) -> Table:
    """One row for each block, as ``Table`` describes."""
    operator = _operator()
    assert operator is not None
    block = block_of(pair.positions)
    blocks = -(-pair.positions // block)
    rows = torch.empty((blocks, len(COLUMNS)), dtype=torch.float64, device="cpu")
    codes = codes_of(pair.a.dtype)
    operator(
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


def _operator() -> Any:  # noqa: ANN401 - torch types its operators no better
    return _loaded(settings.get_str("OPTEST_NATIVE"))


@functools.lru_cache(maxsize=2)
def _loaded(_setting: str) -> Any:  # noqa: ANN401
    """The operator, or None where it cannot be had; asked once, since every check asks."""
    compare = native.csrc_or_none("compare", "the comparison falls back to torch operations")
    return None if compare is None else compare.compare_scan
