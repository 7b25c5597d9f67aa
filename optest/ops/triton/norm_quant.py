"""Triton kernels of ``aiter_ref.norm_quant``: per-token quantisation with what comes before it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import block_of, cast, load_fp32, require, require_rows
from optest.ops.triton.quant import _larger, _limit, _quantised, _require_scales, _scale_of


@triton.jit
def _sum_at(x, residual, inside):
    """The sum as it is kept: rounded to the dtype of ``residual``."""
    total = load_fp32(x, inside) + load_fp32(residual, inside)
    return cast(total, residual.dtype.element_ty)


@triton.jit
def fused_add_rmsnorm_quant_kernel(
    q, scales, x, residual, weight, n, eps, q_row, x_row, residual_row,
    LIMIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program i makes row i: one pass for the sum of squares and the largest, one to write.

    The sum is formed again in the second pass, where it is written: no thread then depends on what
    another has stored. A product with one positive number keeps the order, so the largest element
    of the norm is known from what comes before that product.
    """
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    largest = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        x_at, residual_at = x + row * x_row + columns, residual + row * residual_row + columns
        kept = _sum_at(x_at, residual_at, inside).to(tl.float32)
        squares += kept * kept
        largest = _larger(largest, kept * load_fp32(weight + columns, inside))
    inverse = 1.0 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    scale = _scale_of(largest * inverse, 0, LIMIT)
    tl.store(scales + row, scale)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        x_at, residual_at = x + row * x_row + columns, residual + row * residual_row + columns
        kept = _sum_at(x_at, residual_at, inside)
        tl.store(residual_at, kept, mask=inside)
        value = kept.to(tl.float32) * load_fp32(weight + columns, inside) * inverse
        result = _quantised(value, scale, q.dtype.element_ty, LIMIT)
        tl.store(q + row * q_row + columns, result, mask=inside)


@triton.jit
def smoothquant_kernel(
    q, scales, x, smooth_scale, n, q_row, x_row,
    LIMIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program i reads row i for its scale, then again (from cache) to quantise it."""
    row = tl.program_id(0).to(tl.int64)
    largest = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = load_fp32(x + row * x_row + columns, columns < n)
        largest = _larger(largest, value * load_fp32(smooth_scale + columns, columns < n))
    scale = _scale_of(largest, 0, LIMIT)
    tl.store(scales + row, scale)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = load_fp32(x + row * x_row + columns, columns < n)
        smooth = value * load_fp32(smooth_scale + columns, columns < n)
        result = _quantised(smooth, scale, q.dtype.element_ty, LIMIT)
        tl.store(q + row * q_row + columns, result, mask=columns < n)


def fused_add_rmsnorm_quant(
    q: torch.Tensor,
    scales: torch.Tensor,
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
) -> None:
    """Write q [m, n] and scales [m, 1] of the norm of x + residual, and that sum to ``residual``.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    limit = _limit(q, x)
    m, n = x.shape
    require_rows("residual", residual, (m, n))
    require(
        residual.dtype is x.dtype, f"residual: dtype {residual.dtype}, expected {x.dtype} as of x."
    )
    require_rows("weight", weight, (n,))
    _require_scales(scales, m)
    if n == 0:
        scales.fill_(1.0)  # as of any row without a largest element
    elif m:
        fused_add_rmsnorm_quant_kernel[(m,)](
            q, scales, x, residual, weight, n, eps, q.stride(0), x.stride(0), residual.stride(0),
            LIMIT=limit, BLOCK=block_of(n),
        )  # fmt: skip


def smoothquant(
    q: torch.Tensor, scales: torch.Tensor, x: torch.Tensor, smooth_scale: torch.Tensor
) -> None:
    """Write q [m, n] and scales [m, 1] of x [m, n] times smooth_scale [n].

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    limit = _limit(q, x)
    m, n = x.shape
    require_rows("smooth_scale", smooth_scale, (n,))
    _require_scales(scales, m)
    if m:
        smoothquant_kernel[(m,)](
            q, scales, x, smooth_scale, n, q.stride(0), x.stride(0), LIMIT=limit, BLOCK=block_of(n)
        )
