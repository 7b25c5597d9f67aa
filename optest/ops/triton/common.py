"""What the Triton kernels share: casts right in the interpreter too, tiles, launch arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

from optest.errors import UsageError

if TYPE_CHECKING:
    import torch

# Triton's interpreter casts fp32 to bf16 by truncation and to fp8 with carries lost, and its bf16
# dot is wrong. Under it, kernels round to the target's grid first and multiply in fp32; compiled
# kernels leave both to the hardware, which rounds half to even.
INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))

_MAX_BLOCK = 4096


@triton.jit
def tile_of(program, m_tiles, n_tiles, GROUP: tl.constexpr):
    """Walk the tiles in bands of ``GROUP`` rows, so that neighbours share x and w in the cache."""
    band = program // (GROUP * n_tiles)
    height = tl.minimum(m_tiles - band * GROUP, GROUP)
    inside = program % (GROUP * n_tiles)
    return band * GROUP + inside % height, inside // height


@triton.jit
def cast(value, dtype: tl.constexpr):
    """Cast fp32 ``value`` to ``dtype``, rounded half to even; fp8 and int8 must be in range."""
    if dtype == tl.int8:
        # 1.5 * 2**23: beyond it fp32 has no fractions, so the sum is rounded to a whole number.
        value = (value + 12582912.0) - 12582912.0
    elif INTERPRETED:
        if dtype == tl.bfloat16:
            value = _rounded(value, 16, 0.0)
        elif dtype == tl.float8e4nv:
            value = _rounded(value, 20, 0.015625)
        elif dtype == tl.float8e4b8:
            value = _rounded(value, 20, 0.0078125)
    return value.to(dtype)


@triton.jit
def _rounded(value, dropped: tl.constexpr, smallest_normal: tl.constexpr):
    """Drop mantissa bits of ``value``; below ``smallest_normal`` the grid is a fixed one."""
    bits = value.to(tl.int32, bitcast=True)
    sign = bits & -2147483648
    half = (1 << (dropped - 1)) - 1
    coarse = (bits + half + ((bits >> dropped) & 1)) & -(1 << dropped)
    shift = smallest_normal * (1 << dropped) * 1.5
    fixed = (tl.abs(value) + shift) - shift
    fine = fixed.to(tl.int32, bitcast=True) | sign
    rounded = tl.where(tl.abs(value) < smallest_normal, fine, coarse)
    return tl.where(tl.abs(value) < float("inf"), rounded, bits).to(tl.float32, bitcast=True)


@triton.jit
def load_fp32(pointers, mask):
    """Values at ``pointers`` in fp32, 0 where masked."""
    return tl.load(pointers, mask=mask, other=0.0).to(tl.float32)


def block_of(columns: int, largest: int = _MAX_BLOCK) -> int:
    """Columns that one step of a row-wise kernel takes: a power of two."""
    return min(int(triton.next_power_of_2(max(columns, 1))), largest)


def require(condition: object, message: str) -> None:
    """Refuse an argument.

    Raises:
        UsageError: ``condition`` does not hold.
    """
    if not condition:
        raise UsageError(message)


def require_rows(name: str, x: torch.Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a matrix of another shape, or one whose columns do not lie side by side.

    Raises:
        UsageError: naming the tensor, what it is and what was expected.
    """
    require(
        tuple(x.shape) == shape and (x.shape[-1] <= 1 or x.stride(-1) == 1),
        f"{name}: shape {tuple(x.shape)} with strides {x.stride()}, expected {shape} with columns "
        "side by side (last stride 1). Pass a row-major view or a contiguous copy.",
    )
