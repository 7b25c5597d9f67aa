"""Triton kernel of attention over many queries: sequences side by side, scores never in memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.attention import NOTHING, dot_as, require_like
from optest.ops.triton.common import block_of, cast, require

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_SEQUENCES = 64  # that a program looks through at least, so that few numbers are compiled for
_NARROW = 256  # bytes of a head: with wider ones tiles are halved, for the shared memory's sake


@triton.jit
def _sequence_of(tile, cu_seqlens, sequences, ROWS: tl.constexpr, SEQUENCES: tl.constexpr):
    """The sequence that a tile of queries is of, and the tile's number in it."""
    at = tl.arange(0, SEQUENCES)
    begin = tl.load(cu_seqlens + at, mask=at < sequences, other=0)
    end = tl.load(cu_seqlens + at + 1, mask=at < sequences, other=0)
    tiles = (end - begin + ROWS - 1) // ROWS
    before = tl.cumsum(tiles, 0) <= tile
    return tl.sum(before.to(tl.int32), 0), tile - tl.sum(tl.where(before, tiles, 0), 0)


@triton.jit(do_not_specialize=["sequences", "window"])
def mha_kernel(
    q, k, v, out, cu_seqlens_q, cu_seqlens_k,
    scale, sequences, group, size, window,
    q_row, q_head, k_row, k_head, v_row, v_head, out_row, out_head,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, SIZE: tl.constexpr,
    SEQUENCES: tl.constexpr,
):  # fmt: skip
    """Program (i, h) attends tile i of all sequences' queries for head h; a window of 0 is none."""
    head = tl.program_id(1)
    sequence, tile = _sequence_of(tl.program_id(0), cu_seqlens_q, sequences, ROWS, SEQUENCES)
    if sequence >= sequences:  # tiles are counted for the worst: a ragged one in each sequence
        return
    q_begin = tl.load(cu_seqlens_q + sequence).to(tl.int64)
    k_begin = tl.load(cu_seqlens_k + sequence).to(tl.int64)
    many = (tl.load(cu_seqlens_q + sequence + 1) - q_begin).to(tl.int32)
    length = (tl.load(cu_seqlens_k + sequence + 1) - k_begin).to(tl.int32)
    rows = tile * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, SIZE)
    inside = (rows[:, None] < many) & (columns[None, :] < size)
    q_at = q + (q_begin + rows[:, None]) * q_row + head * q_head + columns[None, :]
    queries = tl.load(q_at, mask=inside, other=0.0)
    places = rows + length - many  # of the keys at which the queries stand
    begin = 0
    end = length
    if CAUSAL:
        end = tl.minimum(length, tile * ROWS + ROWS + length - many)
        if window > 0:
            begin = tl.maximum(0, tile * ROWS + length - many + 1 - window)
    k_at = k + k_begin * k_row + head // group * k_head + columns[None, :]
    v_at = v + k_begin * v_row + head // group * v_head + columns[None, :]
    most = tl.full([ROWS], NOTHING, dtype=tl.float32)
    total = tl.zeros([ROWS], dtype=tl.float32)
    result = tl.zeros([ROWS, SIZE], dtype=tl.float32)
    for start in range(begin, end, TILE):
        tokens = start + tl.arange(0, TILE)
        held = (tokens[:, None] < length) & (columns[None, :] < size)
        keys = tl.load(k_at + tokens[:, None].to(tl.int64) * k_row, mask=held, other=0.0)
        scores = dot_as(queries, tl.trans(keys), q.dtype.element_ty) * scale
        seen = tokens[None, :] < length
        if CAUSAL:
            seen = seen & (tokens[None, :] <= places[:, None])
            if window > 0:
                seen = seen & (tokens[None, :] > places[:, None] - window)
        scores = tl.where(seen, scores, float("-inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        before = tl.exp(most - now)
        powers = tl.exp(scores - now[:, None])
        values = tl.load(v_at + tokens[:, None].to(tl.int64) * v_row, mask=held, other=0.0)
        result = result * before[:, None] + dot_as(powers, values, q.dtype.element_ty)
        total = total * before + tl.sum(powers, 1)
        most = now
    result = result / tl.where(total == 0.0, 1.0, total)[:, None]
    out_at = out + (q_begin + rows[:, None]) * out_row + head * out_head + columns[None, :]
    tl.store(out_at, cast(result, out.dtype.element_ty), mask=inside)


def mha(
    out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    scale: float,
    window: int,
    *,
    causal: bool,
) -> None:
    """Write out [queries, heads, size] from q, k and v [keys, kv_heads, size], int32 starts.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    _require_operands(out, q, k, v)
    _require_starts(cu_seqlens_q, cu_seqlens_k)
    require(window >= 0, f"window: {window}, expected 0 (none) or more.")
    require(causal or not window, f"window: {window} without causal, expected 0 there.")
    if not out.numel():
        return
    queries, heads, size = q.shape
    sequences = len(cu_seqlens_q) - 1
    rows, tile = _tiles(block_of(size) * q.element_size())
    grid = (triton.cdiv(queries, rows) + sequences, heads)
    mha_kernel[grid](
        q, k, v, out, cu_seqlens_q, cu_seqlens_k,
        scale, sequences, heads // k.shape[1], size, window,
        *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *out.stride()[:2],
        CAUSAL=causal, ROWS=rows, TILE=tile, SIZE=max(16, block_of(size)),
        SEQUENCES=max(_SEQUENCES, int(triton.next_power_of_2(sequences))),
    )  # fmt: skip


def _tiles(head_bytes: int) -> tuple[int, int]:
    """Queries and tokens of a step."""
    return (64, 32) if head_bytes <= _NARROW else (32, 16)


def _require_operands(out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    require(q.dim() == 3, f"q: shape {tuple(q.shape)}, expected [queries, heads, size].")
    require(out.shape == q.shape, f"out: shape {tuple(out.shape)}, expected {tuple(q.shape)}.")
    require(q.dtype in _DTYPES, f"q: {q.dtype}, expected one of {_DTYPES}.")
    require(
        k.dim() == 3 and k.shape[2] == q.shape[2],
        f"k: shape {tuple(k.shape)}, expected [keys, kv_heads, {q.shape[2]}].",
    )
    require(v.shape == k.shape, f"v: shape {tuple(v.shape)}, expected {tuple(k.shape)}.")
    heads, kv_heads = q.shape[1], k.shape[1]
    require(
        heads == 0 or (kv_heads > 0 and heads % kv_heads == 0),
        f"q: {heads} heads, expected a multiple of the {kv_heads} of k.",
    )
    require_like(q, {"out": out, "q": q, "k": k, "v": v})


def _require_starts(cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor) -> None:
    for name, tensor in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
        require(
            tensor.dtype is torch.int32 and tensor.dim() == 1 and tensor.is_contiguous(),
            f"{name}: {tensor.dtype} of shape {tuple(tensor.shape)}, expected int32 "
            "[sequences + 1], contiguous.",
        )
    require(
        len(cu_seqlens_q) == len(cu_seqlens_k) >= 1,
        f"cu_seqlens_k: {len(cu_seqlens_k)} starts, expected {len(cu_seqlens_q)} as of the "
        "queries, at least one.",
    )
