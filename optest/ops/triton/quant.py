"""Triton kernels of symmetric quantisation; the convention is that of ``aiter_ref.quant``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import block_of, cast, load_fp32, require, require_rows

_LIMITS = {torch.float8_e4m3fn: 448.0, torch.float8_e4m3fnuz: 240.0, torch.int8: 127.0}
_MAX_PARTIALS = 1024


@triton.jit
def _largest_of(largest, axis: tl.constexpr):
    """Largest along ``axis``, or NaN where there is one: ``tl.max`` alone drops it."""
    is_nan = largest != largest  # noqa: PLR0124
    has_nan = tl.max(is_nan.to(tl.int32), axis)
    return tl.where(has_nan > 0, float("nan"), tl.max(largest, axis))


@triton.jit
def _scale_of(largest, axis: tl.constexpr, LIMIT: tl.constexpr):
    scale = tl.div_rn(_largest_of(largest, axis), LIMIT)
    return tl.where(scale == 0, 1.0, scale)


@triton.jit
def _quantised(value, scale, dtype: tl.constexpr, LIMIT: tl.constexpr):
    scaled = tl.div_rn(value, scale)
    return cast(tl.clamp(scaled, -LIMIT, LIMIT, propagate_nan=tl.PropagateNan.ALL), dtype)


@triton.jit
def _larger(largest, value):
    return tl.maximum(largest, tl.abs(value), propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def static_kernel(
    x, q, scale, k, x_row, q_row,
    LIMIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program (i, j) quantises block j of row i with the scale of the tensor."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < k
    value = load_fp32(x + row * x_row + columns, inside)
    result = _quantised(value, tl.load(scale), q.dtype.element_ty, LIMIT)
    tl.store(q + row * q_row + columns, result, mask=inside)


@triton.jit
def largest_kernel(x, partial, m, k, x_row, BLOCK: tl.constexpr):
    """Program i finds the largest magnitude, or NaN, in rows i, i + programs, ..."""
    largest = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(tl.program_id(0), m, tl.num_programs(0)):
        for start in range(0, k, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            pointers = x + tl.cast(row, tl.int64) * x_row + columns
            largest = _larger(largest, load_fp32(pointers, columns < k))
    tl.store(partial + tl.program_id(0), _largest_of(largest, 0))


@triton.jit
def tensor_scale_kernel(partial, scale, n, LIMIT: tl.constexpr, BLOCK: tl.constexpr):
    """One program turns ``n`` partial results into the scale of the tensor."""
    index = tl.arange(0, BLOCK)
    largest = tl.load(partial + index, mask=index < n, other=0.0)
    tl.store(scale, _scale_of(largest, 0, LIMIT))


@triton.jit
def token_kernel(
    x, q, scales, k, x_row, q_row,
    LIMIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program i reads row i for its scale, then again (from cache) to quantise it."""
    row = tl.program_id(0).to(tl.int64)
    largest = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, k, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        largest = _larger(largest, load_fp32(x + row * x_row + columns, columns < k))
    scale = _scale_of(largest, 0, LIMIT)
    tl.store(scales + row, scale)
    for start in range(0, k, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = load_fp32(x + row * x_row + columns, columns < k)
        result = _quantised(value, scale, q.dtype.element_ty, LIMIT)
        tl.store(q + row * q_row + columns, result, mask=columns < k)


@triton.jit
def group_kernel(
    x, q, scales, k, groups, x_row, q_row, group,
    LIMIT: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program (i, j) quantises ``GROUPS`` neighbouring groups of row i, one scale each."""
    row = tl.program_id(0).to(tl.int64)
    index = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    within = tl.arange(0, BLOCK)[None, :]
    columns = index[:, None] * group + within
    inside = (within < group) & (columns < k)
    value = load_fp32(x + row * x_row + columns, inside)
    scale = _scale_of(_larger(tl.zeros_like(value), value), 1, LIMIT)
    tl.store(scales + row * groups + index, scale, mask=index < groups)
    result = _quantised(value, scale[:, None], q.dtype.element_ty, LIMIT)
    tl.store(q + row * q_row + columns, result, mask=inside)


def static_per_tensor_quant(q: torch.Tensor, x: torch.Tensor, scale: torch.Tensor) -> None:
    """Write q [m, k] from x [m, k] and scale [1] fp32.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    limit = _limit(q, x)
    _require_scales(scale, 1)
    m, k = x.shape
    block = block_of(k)
    if x.numel():
        grid = (m, triton.cdiv(k, block))
        static_kernel[grid](x, q, scale, k, x.stride(0), q.stride(0), LIMIT=limit, BLOCK=block)


def dynamic_per_tensor_quant(q: torch.Tensor, x: torch.Tensor, scale: torch.Tensor) -> None:
    """Write q [m, k] and scale [1] fp32 from x [m, k].

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    limit = _limit(q, x)
    _require_scales(scale, 1)
    m, k = x.shape
    programs = max(1, min(m, _MAX_PARTIALS))
    partial = torch.empty(programs, dtype=torch.float32, device=x.device)
    largest_kernel[(programs,)](x, partial, m, k, x.stride(0), BLOCK=block_of(k))
    tensor_scale_kernel[(1,)](partial, scale, programs, LIMIT=limit, BLOCK=block_of(programs))
    static_per_tensor_quant(q, x, scale)


def dynamic_per_token_quant(q: torch.Tensor, x: torch.Tensor, scales: torch.Tensor) -> None:
    """Write q [m, k] and scales [m, 1] fp32 from x [m, k].

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    limit = _limit(q, x)
    m, k = x.shape
    _require_scales(scales, m)
    if m:
        token_kernel[(m,)](
            x, q, scales, k, x.stride(0), q.stride(0), LIMIT=limit, BLOCK=block_of(k)
        )


def dynamic_per_group_quant(
    q: torch.Tensor, x: torch.Tensor, scales: torch.Tensor, group: int
) -> None:
    """Write q [m, k] and scales [m, ceil(k / group)] fp32 from x [m, k].

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    limit = _limit(q, x)
    require(group > 0, f"group: {group}, expected a number of columns of at least 1.")
    m, k = x.shape
    groups = triton.cdiv(k, group)
    _require_scales(scales, m * groups)
    if x.numel():
        block = block_of(group, largest=group * 2)
        tile = block_of(groups, largest=max(1, 2048 // block))
        grid = (m, triton.cdiv(groups, tile))
        group_kernel[grid](
            x, q, scales, k, groups, x.stride(0), q.stride(0), group,
            LIMIT=limit, GROUPS=tile, BLOCK=block,
        )  # fmt: skip


def _limit(q: torch.Tensor, x: torch.Tensor) -> float:
    require(x.dim() == 2, f"x: shape {tuple(x.shape)}, expected [m, k].")
    require_rows("x", x, tuple(x.shape))
    require_rows("out", q, tuple(x.shape))
    choices = ", ".join(str(dtype) for dtype in _LIMITS)
    require(q.dtype in _LIMITS, f"out: dtype {q.dtype}, expected one of {choices}.")
    return _LIMITS[q.dtype]


def _require_scales(scales: torch.Tensor, count: int) -> None:
    require(
        scales.dtype is torch.float32 and scales.is_contiguous() and scales.numel() == count,
        f"scales: {scales.dtype} of shape {tuple(scales.shape)}, expected {count} contiguous fp32.",
    )
