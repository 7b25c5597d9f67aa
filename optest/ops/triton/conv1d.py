"""Triton kernel of a causal convolution's step; the state moves on by one position in place."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import block_of, cast, load_fp32, require, require_rows

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_LARGEST_BLOCK = 256


@triton.jit
def update_kernel(
    y, x, state, weight, bias, slots, dim,
    y_row, x_row, state_slot, state_column, state_position,
    WIDTH: tl.constexpr, SILU: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program (i, j) convolves block j of the columns of row i."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.zeros([BLOCK], dtype=tl.int64) + tl.load(slots + row)
    inside = columns < dim
    here = inside & (slot >= 0)
    held = state + slot * state_slot + columns.to(tl.int64) * state_column
    total = load_fp32(bias + columns, inside)
    for j in tl.static_range(WIDTH):
        if j + 1 < WIDTH:
            value = tl.load(held + j * state_position, mask=here, other=0.0)
        else:
            value = tl.load(x + row * x_row + columns, mask=here, other=0.0)
        total += value.to(tl.float32) * load_fp32(weight + columns * WIDTH + j, inside)
        if j > 0:
            tl.store(held + (j - 1) * state_position, value, mask=here)
    if SILU:
        total = total / (1.0 + tl.exp(-total))
    result = tl.where(slot >= 0, total, 0.0)
    tl.store(y + row * y_row + columns, cast(result, y.dtype.element_ty), mask=inside)


def causal_conv1d_update(
    y: torch.Tensor,
    x: torch.Tensor,
    state: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    slots: torch.Tensor,
    silu: bool,
) -> None:
    """Write y [batch, dim]; move state [slots, dim, width - 1] on.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    require(x.dim() == 2, f"x: shape {tuple(x.shape)}, expected [batch, dim].")
    require(x.dtype in _DTYPES, f"x: {x.dtype}, expected one of {_DTYPES}.")
    batch, dim = x.shape
    require(
        weight.dim() == 2 and weight.shape[1] >= 1,
        f"weight: shape {tuple(weight.shape)}, expected [{dim}, width].",
    )
    width = weight.shape[1]
    require_rows("x", x, (batch, dim))
    require_rows("y", y, (batch, dim))
    require(
        tuple(weight.shape) == (dim, width) and weight.is_contiguous() and bias.is_contiguous(),
        f"weight: shape {tuple(weight.shape)}, expected a contiguous [{dim}, width], and bias.",
    )
    require(tuple(bias.shape) == (dim,), f"bias: shape {tuple(bias.shape)}, expected [{dim}].")
    require(
        state.dim() == 3 and tuple(state.shape[1:]) == (dim, width - 1),
        f"state: shape {tuple(state.shape)}, expected [slots, {dim}, {width - 1}].",
    )
    for name, tensor in (("y", y), ("state", state), ("weight", weight), ("bias", bias)):
        require(tensor.dtype is x.dtype, f"{name}: {tensor.dtype}, expected {x.dtype} as of x.")
    require(
        slots.dtype is torch.int32 and tuple(slots.shape) == (batch,) and slots.is_contiguous(),
        f"slots: {slots.dtype} of shape {tuple(slots.shape)}, expected a contiguous int32 "
        f"[{batch}].",
    )
    if x.numel():
        block = block_of(dim, largest=_LARGEST_BLOCK)
        update_kernel[(batch, triton.cdiv(dim, block))](
            y, x, state, weight, bias, slots, dim, y.stride(0), x.stride(0), *state.stride(),
            WIDTH=width, SILU=silu, BLOCK=block,
        )  # fmt: skip
