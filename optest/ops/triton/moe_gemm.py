"""Triton kernels of a mixture's products; pairs come sorted as ``aiter_ref.moe.Sorted``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import INTERPRETED, block_of, cast, require

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_CODES = (torch.int8, torch.float8_e4m3fn, torch.float8_e4m3fnuz)
_LEAST_ROWS = 16  # of a dot
_LEAST_DEPTH = 32  # of a dot of 8-bit operands
_FP32_BYTES = 4


@triton.jit
def _product(a, b, total):
    """``total`` and the product: int32 of int8, fp32 of all others."""
    if INTERPRETED and total.dtype == tl.float32:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    if total.dtype == tl.float32:
        return tl.dot(a, b, total, input_precision="ieee")
    return tl.dot(a, b, total, out_dtype=total.dtype)


@triton.jit
def grouped_kernel(
    x, w, y, x_scale, w_scale, sorted_ids, block_experts, pairs, shared, n, k,
    x_row, w_expert, w_row, y_row,
    SUM: tl.constexpr, SCALED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Program (i, j) writes columns i of the pairs of block j, which have one expert."""
    block = tl.program_id(1)
    expert = tl.load(block_experts + block).to(tl.int64)
    if expert >= 0:
        pair = tl.load(sorted_ids + block * BLOCK_M + tl.arange(0, BLOCK_M))
        there = pair < pairs
        row = (pair // shared).to(tl.int64)
        columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
        depth = tl.arange(0, BLOCK_K)
        x_at = x + row[:, None] * x_row + depth[None, :]
        w_at = w + expert * w_expert + columns[None, :] * w_row + depth[:, None]
        total = tl.zeros([BLOCK_M, BLOCK_N], dtype=SUM)
        for start in range(0, k, BLOCK_K):
            left = depth < k - start
            a = tl.load(x_at, mask=there[:, None] & left[None, :], other=0.0)
            b = tl.load(w_at, mask=(columns[None, :] < n) & left[:, None], other=0.0)
            total = _product(a, b, total)
            x_at += BLOCK_K
            w_at += BLOCK_K
        result = total.to(tl.float32)
        if SCALED:
            by_row = tl.load(x_scale + row, mask=there, other=0.0)
            by_column = tl.load(w_scale + expert * n + columns, mask=columns < n, other=0.0)
            result = result * by_row[:, None] * by_column[None, :]
        y_at = y + pair.to(tl.int64)[:, None] * y_row + columns[None, :]
        inside = there[:, None] & (columns[None, :] < n)
        tl.store(y_at, cast(result, y.dtype.element_ty), mask=inside)


@triton.jit
def combine_kernel(
    out, y, weights, ids, topk, experts, n, out_row, BLOCK: tl.constexpr
):  # fmt: skip
    """Program (i, j) adds up block j of the parts of token i."""
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for slot in range(topk):
        pair = token * topk + slot
        expert = tl.zeros([BLOCK], dtype=tl.int32) + tl.load(ids + pair)
        here = (expert >= 0) & (expert < experts) & (columns < n)
        part = tl.load(y + pair * n + columns, mask=here, other=0.0)
        total += part * tl.load(weights + pair)
    at = out + token * out_row + columns
    tl.store(at, cast(total, out.dtype.element_ty), mask=columns < n)


def grouped_gemm(
    out: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    sorted_ids: torch.Tensor,
    block_experts: torch.Tensor,
    total: torch.Tensor,
    shared: int,
) -> None:
    """Write rows of out [pairs, n] from x [pairs / shared, k] and w [experts, n, k] of its dtype.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    del total  # blocks behind the last expert's are known by their expert
    require(
        x.dtype is w.dtype and x.dtype in _DTYPES,
        f"x: {x.dtype}, w: {w.dtype}, expected the same, one of {_DTYPES}.",
    )
    _launch(out, x, w, None, None, sorted_ids, block_experts, shared)


def grouped_gemm_a8w8(
    out: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    sorted_ids: torch.Tensor,
    block_experts: torch.Tensor,
    total: torch.Tensor,
    shared: int,
) -> None:
    """``grouped_gemm`` of int8 or fp8 by x_scale [rows of x, 1] and w_scale [experts, n, 1].

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    del total
    require(
        x.dtype is w.dtype and x.dtype in _CODES,
        f"x: {x.dtype}, w: {w.dtype}, expected the same, one of {_CODES}.",
    )
    for name, scales, count in (
        ("x_scale", x_scale, x.shape[0]),
        ("w_scale", w_scale, w.shape[0] * w.shape[1]),
    ):
        _require_all(name, scales, torch.float32, count)
    _launch(out, x, w, x_scale, w_scale, sorted_ids, block_experts, shared)


def moe_combine(
    out: torch.Tensor, y: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor, experts: int
) -> None:
    """Write out [m, n], sums of the rows of y [m * topk, n] fp32 by weights [m, topk] fp32.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    require(ids.dim() == 2, f"ids: shape {tuple(ids.shape)}, expected [m, topk].")
    m, topk = ids.shape
    _require_rows("out", out, m)
    n = out.shape[1]
    _require_all("ids", ids, torch.int32, m * topk)
    _require_all("weights", weights, torch.float32, m * topk)
    _require_all("y", y, torch.float32, m * topk * n)
    if out.numel():
        block = block_of(n, largest=1024)
        combine_kernel[(m, triton.cdiv(n, block))](
            out, y, weights, ids, topk, experts, n, out.stride(0), BLOCK=block
        )


def _launch(
    out: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor | None,
    w_scale: torch.Tensor | None,
    sorted_ids: torch.Tensor,
    block_experts: torch.Tensor,
    shared: int,
) -> None:
    require(w.dim() == 3, f"w: shape {tuple(w.shape)}, expected [experts, n, k].")
    _, n, k = w.shape
    _require_rows("x", x, x.shape[0], k)
    _require_rows("out", out, x.shape[0] * shared, n)
    require(k <= 1 or w.stride(2) == 1, f"w: strides {w.stride()}, expected the last to be 1.")
    blocks = block_experts.numel()
    _require_all("block_experts", block_experts, torch.int32, blocks)
    rows = sorted_ids.numel() // max(blocks, 1)
    _require_all("sorted_ids", sorted_ids, torch.int32, rows * blocks)
    if not (out.numel() and blocks):
        return
    require(
        rows >= _LEAST_ROWS and rows & (rows - 1) == 0,
        f"blocks of {rows} pairs, expected a power of two from {_LEAST_ROWS} on.",
    )
    depth = 32 if x.element_size() == _FP32_BYTES else 64
    tiles = {
        "BLOCK_M": rows,
        "BLOCK_N": max(16, block_of(n, largest=64 if x.element_size() == _FP32_BYTES else 128)),
        "BLOCK_K": max(_LEAST_DEPTH, block_of(k, largest=depth)),
    }
    grouped_kernel[(triton.cdiv(n, tiles["BLOCK_N"]), blocks)](
        x, w, out, x if x_scale is None else x_scale, w if w_scale is None else w_scale,
        sorted_ids, block_experts, out.shape[0], shared, n, k,
        x.stride(0), w.stride(0), w.stride(1), out.stride(0),
        SUM=tl.int32 if x.dtype is torch.int8 else tl.float32, SCALED=x_scale is not None, **tiles,
    )  # fmt: skip


def _require_rows(name: str, tensor: torch.Tensor, rows: int, columns: int | None = None) -> None:
    fits = (
        tensor.dim() == 2
        and tensor.shape[0] == rows
        and tensor.shape[1] == (tensor.shape[1] if columns is None else columns)
    )
    require(
        fits and (tensor.shape[1] <= 1 or tensor.stride(1) == 1),
        f"{name}: shape {tuple(tensor.shape)} with strides {tensor.stride()}, expected "
        f"[{rows}, {'n' if columns is None else columns}] with columns side by side.",
    )


def _require_all(name: str, tensor: torch.Tensor, dtype: torch.dtype, count: int) -> None:
    require(
        tensor.dtype is dtype and tensor.is_contiguous() and tensor.numel() == count,
        f"{name}: {tensor.dtype} of shape {tuple(tensor.shape)}, expected {count} contiguous "
        f"elements of {dtype}.",
    )
