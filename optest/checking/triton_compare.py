"""The pass over memory on a GPU: one Triton program for each block, any strides."""

# Triton reads the kernels' source: their arguments have no types that Python knows, constants are
# capital, and a NaN is what differs from itself.
# ruff: noqa: ANN001, ANN202, N803, PLR0124, PLR0913, PLR0915, PLR0917
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from optest.checking.decode import codes_of
from optest.checking.domain import FP4X2
from optest.checking.table import COLUMNS, Bounds, Table, block_of

if TYPE_CHECKING:
    from optest.checking.domain import Domain
    from optest.checking.pair import Pair

_TILE = 1024


def can_scan(pair: Pair, domain: Domain) -> bool:
    """Whether the kernel reads this pair: reals of one dtype, not packed, not a lazy negation."""
    a, b = pair.a, pair.b
    real = domain.compute in (torch.float32, torch.float64) and a.dtype != FP4X2
    return real and a.dtype == b.dtype and not (a.is_neg() or b.is_neg())


def scan(pair: Pair, domain: Domain, bounds: Bounds, tile: int = _TILE) -> Table:
    """One row for each block, as ``Table`` describes."""
    block = block_of(pair.positions)
    blocks = -(-pair.positions // block)
    a, b, device = pair.a, pair.b, pair.a.device
    codes = codes_of(a.dtype)
    if codes is not None or a.dtype == torch.bool:
        a, b = a.view(torch.uint8), b.view(torch.uint8)
    limits = [bounds.rtol, bounds.atol, bounds.gross_floor]
    layout = [list(numbers)[::-1] for numbers in (a.shape, a.stride(), b.stride())]
    rows = torch.empty((blocks, len(COLUMNS)), dtype=torch.float64, device=device)
    _scan_kernel[(blocks,)](
        a,
        b,
        rows if codes is None else codes.to(device),
        torch.tensor(limits, dtype=torch.float64, device=device),
        torch.tensor(layout, dtype=torch.int64, device=device),
        rows,
        pair.positions,
        CODED=codes is not None,
        DOUBLE=domain.compute == torch.float64,
        EQUAL_NAN=bounds.equal_nan,
        DIMS=a.ndim,
        BLOCK=block,
        TILE=min(tile, block),
        # The bound is rounded as torch does it: a multiplication, then an addition.
        enable_fp_fusion=False,
    )
    return Table(rows.cpu(), block)


@triton.jit
def _decoded(pointer, codes, offset, inside, CODED: tl.constexpr, DOUBLE: tl.constexpr):
    stored = tl.load(pointer + offset, mask=inside, other=0)
    if CODED:
        stored = tl.load(codes + stored.to(tl.int32), mask=inside, other=0.0)
    return stored.to(tl.float64) if DOUBLE else stored.to(tl.float32)


@triton.jit
def _scan_kernel(
    reference, candidate, codes, limits, layout, rows, positions,
    CODED: tl.constexpr, DOUBLE: tl.constexpr, EQUAL_NAN: tl.constexpr,
    DIMS: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Program i writes row i of ``rows``: block i, tile by tile, in the order of table.COLUMNS.

    layout: int64 [3, DIMS], sizes and both strides in elements, innermost dimension first.
    limits: fp64 [rtol, atol, gross_floor].
    """
    number = tl.program_id(0).to(tl.int64)
    real = tl.float64 if DOUBLE else tl.float32
    rtol = tl.load(limits).to(real)
    atol = tl.load(limits + 1).to(real)
    gross_floor = tl.load(limits + 2).to(real)
    infinity = float("inf")
    mismatched = tl.zeros((TILE,), dtype=tl.int32)
    nonfinite = tl.zeros((TILE,), dtype=tl.int32)
    gross = tl.zeros((TILE,), dtype=tl.int32)
    nan_a = tl.zeros((TILE,), dtype=tl.int32)
    nan_b = tl.zeros((TILE,), dtype=tl.int32)
    inf_a = tl.zeros((TILE,), dtype=tl.int32)
    inf_b = tl.zeros((TILE,), dtype=tl.int32)
    sum_a = tl.zeros((TILE,), dtype=tl.float64)
    sum_d = tl.zeros((TILE,), dtype=tl.float64)
    max_abs = tl.zeros((TILE,), dtype=real)
    peak = tl.zeros((TILE,), dtype=real)
    margin = tl.zeros((TILE,), dtype=real) - infinity
    for start in range(0, BLOCK, TILE):
        position = number * BLOCK + start + tl.arange(0, TILE)
        inside = position < positions
        offset_a = position * 0
        offset_b = position * 0
        rest = position
        for dim in tl.static_range(DIMS):
            size = tl.load(layout + dim)
            offset_a += rest % size * tl.load(layout + DIMS + dim)
            offset_b += rest % size * tl.load(layout + 2 * DIMS + dim)
            rest = rest // size
        # Lanes outside hold zeros on both sides and match.
        a = _decoded(reference, codes, offset_a, inside, CODED, DOUBLE)
        b = _decoded(candidate, codes, offset_b, inside, CODED, DOUBLE)
        magnitude = tl.abs(a)
        difference = tl.abs(a - b)
        finite_a = magnitude < infinity
        finite = finite_a & (tl.abs(b) < infinity)
        is_nan_a = a != a
        is_nan_b = b != b
        same = a == b
        if EQUAL_NAN:
            same = same | (is_nan_a & is_nan_b)
        bound = magnitude * rtol + atol
        wrong = tl.where(finite, difference > bound, ~same)
        far = finite & (difference > bound * 16.0)
        excess = tl.where(far, difference - magnitude * 0.5, -infinity)
        mismatched += wrong.to(tl.int32)
        nonfinite += (wrong & ~finite).to(tl.int32)
        gross += (excess > gross_floor).to(tl.int32)
        nan_a += is_nan_a.to(tl.int32)
        nan_b += is_nan_b.to(tl.int32)
        inf_a += (magnitude == infinity).to(tl.int32)
        inf_b += (tl.abs(b) == infinity).to(tl.int32)
        kept_a = tl.where(finite_a, magnitude, 0.0)
        kept_d = tl.where(finite, difference, 0.0)
        sum_a += kept_a.to(tl.float64) * kept_a.to(tl.float64)
        sum_d += kept_d.to(tl.float64) * kept_d.to(tl.float64)
        peak = tl.maximum(peak, kept_a)
        max_abs = tl.maximum(max_abs, kept_d)
        margin = tl.maximum(margin, excess)
    row = rows + number * 13
    tl.store(row + 0, tl.sum(mismatched).to(tl.float64))
    tl.store(row + 1, tl.sum(nonfinite).to(tl.float64))
    tl.store(row + 2, tl.sum(gross).to(tl.float64))
    tl.store(row + 3, 0.0)
    tl.store(row + 4, tl.sum(nan_a).to(tl.float64))
    tl.store(row + 5, tl.sum(nan_b).to(tl.float64))
    tl.store(row + 6, tl.sum(inf_a).to(tl.float64))
    tl.store(row + 7, tl.sum(inf_b).to(tl.float64))
    tl.store(row + 8, tl.sum(sum_a))
    tl.store(row + 9, tl.sum(sum_d))
    tl.store(row + 10, tl.max(max_abs).to(tl.float64))
    tl.store(row + 11, tl.max(peak).to(tl.float64))
    tl.store(row + 12, tl.max(margin).to(tl.float64))
