"""Triton kernels of RMSNorm, alone and after a residual sum; sums of squares are fp32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

from optest.ops.triton.common import block_of, cast, load_fp32, require, require_rows

if TYPE_CHECKING:
    import torch


@triton.jit
def rmsnorm_kernel(out, x, weight, n, eps, out_row, x_row, BLOCK: tl.constexpr):
    """Program i normalises row i: one pass for the sum of squares, one to write."""
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = load_fp32(x + row * x_row + columns, columns < n)
        squares += value * value
    inverse = 1.0 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = load_fp32(x + row * x_row + columns, columns < n)
        scaled = value * inverse * load_fp32(weight + columns, columns < n)
        tl.store(
            out + row * out_row + columns, cast(scaled, out.dtype.element_ty), mask=columns < n
        )


@triton.jit
def fused_add_rmsnorm_kernel(
    x, residual, weight, n, eps, x_row, residual_row,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Program i writes the sum of row i to ``residual`` and the norm of that to ``x``.

    The sum is formed again in the second pass, where both are written: no thread then depends on
    what another has stored.
    """
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        total = load_fp32(x + row * x_row + columns, inside)
        total += load_fp32(residual + row * residual_row + columns, inside)
        kept = cast(total, residual.dtype.element_ty).to(tl.float32)
        squares += kept * kept
    inverse = 1.0 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        x_at = x + row * x_row + columns
        residual_at = residual + row * residual_row + columns
        total = load_fp32(x_at, inside) + load_fp32(residual_at, inside)
        kept = cast(total, residual.dtype.element_ty)
        scaled = kept.to(tl.float32) * inverse * load_fp32(weight + columns, inside)
        tl.store(residual_at, kept, mask=inside)
        tl.store(x_at, cast(scaled, x.dtype.element_ty), mask=inside)


def rmsnorm(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """Write out [m, n] from x [m, n] and weight [n].

    Raises:
        UsageError: a shape or stride that the kernel does not take.
    """
    _require_norm(x, weight)
    require_rows("out", out, tuple(x.shape))
    m, n = x.shape
    if x.numel():
        rmsnorm_kernel[(m,)](out, x, weight, n, eps, out.stride(0), x.stride(0), BLOCK=block_of(n))


def fused_add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> None:
    """Make ``residual`` the sum and ``x`` its norm, in place; x, residual [m, n], weight [n].

    Raises:
        UsageError: a shape or stride that the kernel does not take.
    """
    _require_norm(x, weight)
    require_rows("residual", residual, tuple(x.shape))
    m, n = x.shape
    if x.numel():
        fused_add_rmsnorm_kernel[(m,)](
            x, residual, weight, n, eps, x.stride(0), residual.stride(0), BLOCK=block_of(n)
        )


def _require_norm(x: torch.Tensor, weight: torch.Tensor) -> None:
    require(x.dim() == 2, f"x: shape {tuple(x.shape)}, expected [m, n].")
    require_rows("x", x, tuple(x.shape))
    require_rows("weight", weight, (x.shape[1],))
