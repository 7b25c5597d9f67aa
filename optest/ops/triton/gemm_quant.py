"""Triton kernels of GEMM of 8-bit operands with fp32 scales; weights are [n, k] as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import INTERPRETED, block_of, cast, require, tile_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCALE_BLOCK = 128
_GROUP_ROWS = 8
_LEAST_DEPTH = 32  # of a dot of 8-bit operands
_DTYPES = (torch.int8, torch.float8_e4m3fn, torch.float8_e4m3fnuz)
_OUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit
def _product(x_at, w_at, x_inside, w_inside, total):
    """``total`` and the product of two tiles: int32 of int8, fp32 of fp8."""
    a = tl.load(x_at, mask=x_inside, other=0.0)
    b = tl.load(w_at, mask=w_inside, other=0.0)
    if INTERPRETED and total.dtype == tl.float32:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, total, out_dtype=total.dtype)


@triton.jit
def rowwise_kernel(
    x, w, y, x_scale, w_scale, m, n, k,
    x_batch, x_row, w_batch, w_row, y_batch, y_row,
    SUM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """Program (i, j) writes tile i of the product of batch j, scaled by row and by column."""
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)
    batch = tl.program_id(1).to(tl.int64)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    depth = tl.arange(0, BLOCK_K)
    x_at = x + batch * x_batch + rows[:, None] * x_row + depth[None, :]
    w_at = w + batch * w_batch + columns[None, :] * w_row + depth[:, None]
    total = tl.zeros([BLOCK_M, BLOCK_N], dtype=SUM)
    for start in range(0, k, BLOCK_K):
        left = depth < k - start
        x_inside = (rows[:, None] < m) & left[None, :]
        w_inside = (columns[None, :] < n) & left[:, None]
        total = _product(x_at, w_at, x_inside, w_inside, total)
        x_at += BLOCK_K
        w_at += BLOCK_K
    by_row = tl.load(x_scale + batch * m + rows, mask=rows < m, other=0.0)
    by_column = tl.load(w_scale + batch * n + columns, mask=columns < n, other=0.0)
    result = total.to(tl.float32) * by_row[:, None] * by_column[None, :]
    y_at = y + batch * y_batch + rows[:, None] * y_row + columns[None, :]
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(y_at, cast(result, y.dtype.element_ty), mask=inside)


@triton.jit
def blockscale_kernel(
    x, w, y, x_scale, w_scale, m, n, k, x_row, w_row, y_row,
    SUM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """Program i writes tile i; each step of ``BLOCK_K``, a block of scales, is scaled by itself."""
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    depth = tl.arange(0, BLOCK_K)
    across = tl.cdiv(k, BLOCK_K)
    x_at = x + rows[:, None] * x_row + depth[None, :]
    w_at = w + columns[None, :] * w_row + depth[:, None]
    by_row = x_scale + rows * across
    by_column = w_scale + columns // BLOCK_K * across
    total = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for block in range(across):
        left = depth < k - block * BLOCK_K
        x_inside = (rows[:, None] < m) & left[None, :]
        w_inside = (columns[None, :] < n) & left[:, None]
        part = tl.zeros([BLOCK_M, BLOCK_N], dtype=SUM)
        part = _product(x_at, w_at, x_inside, w_inside, part).to(tl.float32)
        x_by = tl.load(by_row + block, mask=rows < m, other=0.0)
        w_by = tl.load(by_column + block, mask=columns < n, other=0.0)
        total += part * (x_by[:, None] * w_by[None, :])
        x_at += BLOCK_K
        w_at += BLOCK_K
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    y_at = y + rows[:, None] * y_row + columns[None, :]
    tl.store(y_at, cast(total, y.dtype.element_ty), mask=inside)


def batched_gemm_a8w8(
    y: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
) -> None:
    """Write y [b, m, n] from x [b, m, k], w [b, n, k], x_scale [b, m, 1], w_scale [b, n, 1].

    Raises:
        UsageError: shapes, strides or dtypes that the kernel does not take.
    """
    b, m, n, k = _sizes(y, x, w)
    _require_scales("x_scale", x_scale, b * m)
    _require_scales("w_scale", w_scale, b * n)
    if y.numel():
        tiles = _tiles(m, n, max(_LEAST_DEPTH, block_of(k, largest=64)), largest=128)
        grid = (_programs(m, n, tiles), b)
        rowwise_kernel[grid](
            x, w, y, x_scale, w_scale, m, n, k,
            x.stride(0), x.stride(1), w.stride(0), w.stride(1), y.stride(0), y.stride(1),
            SUM=_sum_of(x), **tiles,
        )  # fmt: skip


def gemm_a8w8(
    y: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
) -> None:
    """Write y [m, n] from x [m, k], w [n, k], x_scale [m, 1], w_scale [n, 1].

    Raises:
        UsageError: shapes, strides or dtypes that the kernel does not take.
    """
    _require_matrices(y, x, w)
    batched_gemm_a8w8(y.unsqueeze(0), x.unsqueeze(0), w.unsqueeze(0), x_scale, w_scale)


def gemm_a8w8_blockscale(
    y: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
) -> None:
    """Write y [m, n] from x [m, k] scaled by 1 x 128 and w [n, k] scaled by 128 x 128.

    Raises:
        UsageError: shapes, strides or dtypes that the kernel does not take.
    """
    _require_matrices(y, x, w)
    _, m, n, k = _sizes(y.unsqueeze(0), x.unsqueeze(0), w.unsqueeze(0))
    across = triton.cdiv(k, _SCALE_BLOCK)
    _require_scales("x_scale", x_scale, m * across)
    _require_scales("w_scale", w_scale, triton.cdiv(n, _SCALE_BLOCK) * across)
    if y.numel():
        tiles = _tiles(m, n, _SCALE_BLOCK, largest=64)
        blockscale_kernel[(_programs(m, n, tiles),)](
            x, w, y, x_scale, w_scale, m, n, k, x.stride(0), w.stride(0), y.stride(0),
            SUM=_sum_of(x), **tiles,
        )  # fmt: skip


def _sum_of(x: torch.Tensor) -> tl.dtype:
    return tl.int32 if x.dtype is torch.int8 else tl.float32


def _tiles(m: int, n: int, depth: int, largest: int) -> Mapping[str, int]:
    return {
        "BLOCK_M": max(16, block_of(m, largest=largest)),
        "BLOCK_N": max(16, block_of(n, largest=largest)),
        "BLOCK_K": depth,
        "GROUP": _GROUP_ROWS,
    }


def _programs(m: int, n: int, tiles: Mapping[str, int]) -> int:
    return int(triton.cdiv(m, tiles["BLOCK_M"]) * triton.cdiv(n, tiles["BLOCK_N"]))


def _require_matrices(y: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> None:
    for name, tensor in (("out", y), ("x", x), ("w", w)):
        require(tensor.dim() == 2, f"{name}: shape {tuple(tensor.shape)}, expected 2 axes.")


def _sizes(y: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple[int, int, int, int]:
    """b, m, n, k of operands that fit each other."""
    require(
        x.dim() == 3 and w.dim() == 3 and x.shape[::2] == w.shape[::2],
        f"x: shape {tuple(x.shape)}, w: shape {tuple(w.shape)}, expected [b, m, k] and [b, n, k].",
    )
    require(
        x.dtype is w.dtype and x.dtype in _DTYPES,
        f"x: {x.dtype}, w: {w.dtype}, expected the same, one of {_DTYPES}.",
    )
    b, m, k = x.shape
    n = w.shape[1]
    require(
        tuple(y.shape) == (b, m, n) and y.dtype in _OUT_DTYPES,
        f"out: {y.dtype} of shape {tuple(y.shape)}, expected {(b, m, n)}, one of {_OUT_DTYPES}.",
    )
    for name, tensor in (("out", y), ("x", x), ("w", w)):
        require(
            tensor.shape[-1] <= 1 or tensor.stride(-1) == 1,
            f"{name}: strides {tensor.stride()}, expected columns side by side (last stride 1).",
        )
    return b, m, n, k


def _require_scales(name: str, scales: torch.Tensor, count: int) -> None:
    require(
        scales.dtype is torch.float32 and scales.is_contiguous() and scales.numel() == count,
        f"{name}: {scales.dtype} of shape {tuple(scales.shape)}, expected {count} contiguous fp32.",
    )
