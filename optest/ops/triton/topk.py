"""Triton kernel of the k largest of each row; the rules are those of ``aiter_ref.topk``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import block_of, require, require_rows
from optest.ops.triton.routing import key_of

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_LARGEST_BLOCK = 2048


@triton.jit
def _keys(row, columns, length):
    value = tl.load(row + columns, mask=columns < length, other=0.0).to(tl.float32)
    return key_of(value)


@triton.jit
def topk_per_row_kernel(ids, scores, lengths, k, score_row, BLOCK: tl.constexpr):
    """Program i finds the k-th largest key of row i by its bytes, then writes what is above it.

    Of the keys that equal it the first are written, as many as are still wanted.
    """
    index = tl.program_id(0).to(tl.int64)
    row = scores + index * score_row
    out = ids + index * k
    length = tl.load(lengths + index)
    lanes = tl.arange(0, BLOCK)
    if length <= k:
        for start in range(0, k, BLOCK):
            column = start + lanes
            tl.store(out + column, tl.where(column < length, column, -1), mask=column < k)
    else:
        bins = tl.arange(0, 256)
        wanted = k
        found = 0  # the bytes that are known, as an unsigned key
        for byte in tl.static_range(4):
            counts = tl.zeros([256], dtype=tl.int32)
            for start in range(0, length, BLOCK):
                columns = start + lanes
                key = _keys(row, columns, length) ^ -2147483648
                alike = columns < length
                if byte > 0:
                    known: tl.constexpr = 8 * byte
                    alike &= ((key >> (32 - known)) & ((1 << known) - 1)) == found
                counts += tl.histogram((key >> (24 - 8 * byte)) & 255, 256, mask=alike)
            from_here = tl.sum(counts, 0) - tl.cumsum(counts, 0) + counts
            digit = tl.max(tl.where(from_here >= wanted, bins, 0), 0)
            wanted -= tl.sum(tl.where(bins > digit, counts, 0), 0)
            found = (found << 8) | digit
        least = found ^ -2147483648
        place = 0
        equal_before = 0
        for start in range(0, length, BLOCK):
            columns = start + lanes
            inside = columns < length
            key = _keys(row, columns, length)
            equal = (inside & (key == least)).to(tl.int32)
            rank = equal_before + tl.cumsum(equal, 0)
            taken = (inside & (key > least)) | ((equal == 1) & (rank <= wanted))
            order = tl.cumsum(taken.to(tl.int32), 0)
            tl.store(out + place + order - 1, columns, mask=taken)
            place += tl.max(order, 0)
            equal_before += tl.sum(equal, 0)


def topk_per_row(ids: torch.Tensor, scores: torch.Tensor, lengths: torch.Tensor) -> None:
    """Write ids [m, k] from scores [m, n] and lengths [m], each of these from 0 to n.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    require(
        scores.dim() == 2 and scores.dtype in _DTYPES,
        f"scores: {scores.dtype} {tuple(scores.shape)}, expected [m, n] of one of {_DTYPES}.",
    )
    require_rows("scores", scores, tuple(scores.shape))
    m, n = scores.shape
    require(
        tuple(lengths.shape) == (m,) and lengths.is_contiguous() and lengths.dtype is torch.int32,
        f"lengths: {lengths.dtype} {tuple(lengths.shape)}, expected contiguous int32 ({m},).",
    )
    require(
        ids.dim() == 2 and len(ids) == m and ids.is_contiguous() and ids.dtype is torch.int32,
        f"ids: {ids.dtype} {tuple(ids.shape)}, expected contiguous int32 ({m}, k).",
    )
    if ids.numel():
        block = block_of(n, largest=_LARGEST_BLOCK)
        topk_per_row_kernel[(m,)](ids, scores, lengths, ids.shape[1], scores.stride(0), BLOCK=block)
