"""Triton kernel of the gated activations: silu, gelu, and gelu in its tanh form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

from optest.ops.triton.common import block_of, cast, load_fp32, require, require_rows

if TYPE_CHECKING:
    import torch

_KINDS = ("silu", "gelu", "gelu_tanh")


@triton.jit
def _activated(gate, KIND: tl.constexpr):
    if KIND == "silu":
        return gate / (1.0 + tl.exp(-gate))
    if KIND == "gelu":
        return 0.5 * gate * (1.0 + tl.erf(gate * 0.7071067811865476))
    # tanh(u) = 2 / (1 + exp(-2u)) - 1, so that 0.5 * (1 + tanh(u)) is one sigmoid.
    inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
    return gate / (1.0 + tl.exp(-2.0 * inner))


@triton.jit
def act_and_mul_kernel(out, x, d, out_row, x_row, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Program (i, j) writes block j of row i: activated first half times second half."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < d
    gate = load_fp32(x + row * x_row + columns, inside)
    up = load_fp32(x + row * x_row + d + columns, inside)
    result = cast(_activated(gate, KIND) * up, out.dtype.element_ty)
    tl.store(out + row * out_row + columns, result, mask=inside)


def act_and_mul(out: torch.Tensor, x: torch.Tensor, kind: str) -> None:
    """Write out [m, d] from x [m, 2d]; ``kind`` is silu, gelu or gelu_tanh.

    Raises:
        UsageError: an unknown kind, or a shape or stride that the kernel does not take.
    """
    require(kind in _KINDS, f"kind: {kind!r}, expected one of {', '.join(_KINDS)}.")
    require(
        x.dim() == 2 and x.shape[1] % 2 == 0,
        f"x: shape {tuple(x.shape)}, expected [m, 2d].",
    )
    require_rows("x", x, tuple(x.shape))
    m, d = x.shape[0], x.shape[1] // 2
    require_rows("out", out, (m, d))
    if out.numel():
        block = block_of(d, largest=1024)
        grid = (m, triton.cdiv(d, block))
        act_and_mul_kernel[grid](out, x, d, out.stride(0), x.stride(0), KIND=kind, BLOCK=block)
