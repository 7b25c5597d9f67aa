"""Triton kernel of layer normalisation; sums are fp32, the variance is that of centred values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

from optest.ops.triton.common import block_of, cast, load_fp32, require, require_rows

if TYPE_CHECKING:
    import torch


@triton.jit
def layernorm_kernel(out, x, weight, bias, n, eps, out_row, x_row, BLOCK: tl.constexpr):
    """Program i normalises row i: passes for the mean, for the variance, and to write."""
    row = tl.program_id(0).to(tl.int64)
    totals = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        totals += load_fp32(x + row * x_row + columns, columns < n)
    mean = tl.sum(totals, 0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = load_fp32(x + row * x_row + columns, columns < n)
        centred = tl.where(columns < n, value - mean, 0.0)
        squares += centred * centred
    inverse = 1.0 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        value = load_fp32(x + row * x_row + columns, inside)
        scaled = (value - mean) * inverse * load_fp32(weight + columns, inside)
        scaled += load_fp32(bias + columns, inside)
        tl.store(out + row * out_row + columns, cast(scaled, out.dtype.element_ty), mask=inside)


def layernorm(
    out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> None:
    """Write out [m, n] from x [m, n], weight [n] and bias [n].

    Raises:
        UsageError: a shape or stride that the kernel does not take.
    """
    require(x.dim() == 2, f"x: shape {tuple(x.shape)}, expected [m, n].")
    require_rows("x", x, tuple(x.shape))
    require_rows("out", out, tuple(x.shape))
    m, n = x.shape
    require_rows("weight", weight, (n,))
    require_rows("bias", bias, (n,))
    if x.numel():
        layernorm_kernel[(m,)](
            out, x, weight, bias, n, eps, out.stride(0), x.stride(0), BLOCK=block_of(n)
        )
