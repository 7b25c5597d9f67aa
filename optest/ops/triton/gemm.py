"""Triton kernel of ``y[i] = x[i] @ w[i].T``, for any strides; a plain GEMM is the batch of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import INTERPRETED, block_of, cast, require, tile_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_GROUP_ROWS = 8
_FP32_BYTES = 4
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit
def gemm_kernel(
    x, w, y, m, n, k,
    x_batch, x_row, x_col, w_batch, w_row, w_col,
    y_batch, y_row, y_col,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Program (i, j) writes tile i of the product of batch j; sums are fp32."""
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)
    batch = tl.program_id(1).to(tl.int64)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    depth = tl.arange(0, BLOCK_K).to(tl.int64)
    x_at = x + batch * x_batch + rows[:, None] * x_row + depth[None, :] * x_col
    w_at = w + batch * w_batch + columns[None, :] * w_row + depth[:, None] * w_col
    total = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        left = depth < k - start
        a = tl.load(x_at, mask=(rows[:, None] < m) & left[None, :], other=0.0)
        b = tl.load(w_at, mask=(columns[None, :] < n) & left[:, None], other=0.0)
        if INTERPRETED:
            a = a.to(tl.float32)
            b = b.to(tl.float32)
        total = tl.dot(a, b, total, input_precision="ieee")
        x_at += BLOCK_K * x_col
        w_at += BLOCK_K * w_col
    y_at = y + batch * y_batch + rows[:, None] * y_row + columns[None, :] * y_col
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(y_at, cast(total, y.dtype.element_ty), mask=inside)


def batched_gemm(y: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> None:
    """Write y [b, m, n] from x [b, m, k] and w [b, n, k] of one dtype; any strides.

    Raises:
        UsageError: shapes or dtypes that do not fit each other.
    """
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
    require(tuple(y.shape) == (b, m, n), f"out: shape {tuple(y.shape)}, expected {(b, m, n)}.")
    if y.numel():
        tiles = _tiles(m, n, k, x.element_size())
        grid = (triton.cdiv(m, tiles["BLOCK_M"]) * triton.cdiv(n, tiles["BLOCK_N"]), b)
        gemm_kernel[grid](x, w, y, m, n, k, *x.stride(), *w.stride(), *y.stride(), **tiles)


def gemm_a16w16(y: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> None:
    """Write y [m, n] from x [m, k] and w [n, k] of one dtype; any strides.

    Raises:
        UsageError: shapes or dtypes that do not fit each other.
    """
    for name, tensor in (("out", y), ("x", x), ("w", w)):
        require(tensor.dim() == 2, f"{name}: shape {tuple(tensor.shape)}, expected 2 axes.")
    batched_gemm(y.unsqueeze(0), x.unsqueeze(0), w.unsqueeze(0))


def _tiles(m: int, n: int, k: int, itemsize: int) -> Mapping[str, int]:
    """Tile sizes: 128 x 128 x 64 at most, no wider than the problem, 16 at least for the dot.

    fp32 takes half of each, so that the staged tiles fit the shared memory of every target.
    """
    largest = 128 if itemsize < _FP32_BYTES else 64
    return {
        "BLOCK_M": max(16, block_of(m, largest=largest)),
        "BLOCK_N": max(16, block_of(n, largest=largest)),
        "BLOCK_K": max(16, block_of(k, largest=largest // 2)),
        "GROUP": _GROUP_ROWS,
    }
