"""Triton kernel of latent attention: a tile of latents serves a block of heads, twice."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.attention import (
    NOTHING,
    dot_as,
    merge_kernel,
    parts_of,
    require_like,
    require_tables,
)
from optest.ops.triton.common import block_of, require

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_HEADS = 16  # of a program, the fewest that a dot takes: their sums are 512 wide
_TILE = 16  # tokens


@triton.jit
def mla_decode_kernel(
    q, cache, tables, lengths, sums, largest, totals,
    scale, heads, rank, rope, block_size, span,
    q_row, q_head, cache_block, cache_slot, table_row,
    HEADS: tl.constexpr, RANK: tl.constexpr, ROPE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Program (s, b, i) attends part i of sequence s for block b of the heads.

    sums [sequences, parts, heads, rank], largest and totals [sequences, parts, heads] fp32.
    """
    sequence, part = tl.program_id(0).to(tl.int64), tl.program_id(2)
    begin = part * span
    end = tl.minimum(begin + span, tl.load(lengths + sequence))
    rows = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    columns, turned = tl.arange(0, RANK), tl.arange(0, ROPE)
    q_at = q + sequence * q_row + rows[:, None] * q_head
    there = rows[:, None] < heads
    inside = there & (columns[None, :] < rank)
    queries = tl.load(q_at + columns[None, :], mask=inside, other=0.0)
    places = there & (turned[None, :] < rope)
    rotary = tl.load(q_at + rank + turned[None, :], mask=places, other=0.0)
    most = tl.full([HEADS], float("-inf"), dtype=tl.float32)
    total = tl.zeros([HEADS], dtype=tl.float32)
    result = tl.zeros([HEADS, RANK], dtype=tl.float32)
    for start in range(begin, end, TILE):
        tokens = start + tl.arange(0, TILE)
        held = tokens < end
        block = tl.load(tables + sequence * table_row + tokens // block_size, mask=held, other=0)
        at = cache + block.to(tl.int64) * cache_block + tokens % block_size * cache_slot
        wide = held[:, None] & (columns[None, :] < rank)
        latents = tl.load(at[:, None] + columns[None, :], mask=wide, other=0.0)
        narrow = held[:, None] & (turned[None, :] < rope)
        keys = tl.load(at[:, None] + rank + turned[None, :], mask=narrow, other=0.0)
        scores = dot_as(queries, tl.trans(latents), q.dtype.element_ty)
        scores += dot_as(rotary, tl.trans(keys), q.dtype.element_ty)
        scores = tl.where(held[None, :], scores * scale, float("-inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        before = tl.exp(most - now)
        powers = tl.exp(scores - now[:, None])
        result = result * before[:, None] + dot_as(powers, latents, q.dtype.element_ty)
        total = total * before + tl.sum(powers, 1)
        most = now
    row = (sequence * tl.num_programs(2) + part) * heads + rows
    tl.store(sums + row[:, None] * rank + columns[None, :], result, mask=inside)
    tl.store(largest + row, tl.where(total == 0.0, NOTHING, most), mask=rows < heads)
    tl.store(totals + row, total, mask=rows < heads)


def mla_decode(
    out: torch.Tensor,
    q: torch.Tensor,
    cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    scale: float,
) -> None:
    """Write out [sequences, heads, rank] from q [.., rank + rope] and a cache of latents.

    cache [blocks, block_size, rank + rope], block_tables [sequences, blocks] int32, context_lens
    [sequences] int32. Contexts are cut into parts where sequences alone would leave a card idle.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    _require_operands(out, q, cache)
    require_tables(block_tables, context_lens, q.shape[0])
    if not out.numel():
        return
    sequences, heads, size = q.shape
    rank, block_size = out.shape[2], cache.shape[1]
    programs = triton.cdiv(heads, _HEADS)
    span, parts = parts_of(block_tables.shape[1] * block_size, sequences * programs)
    sums = torch.empty(sequences, parts, heads, rank, dtype=torch.float32, device=q.device)
    largest = torch.empty(sequences, parts, heads, dtype=torch.float32, device=q.device)
    totals = torch.empty_like(largest)
    mla_decode_kernel[(sequences, programs, parts)](
        q, cache, block_tables, context_lens, sums, largest, totals,
        scale, heads, rank, size - rank, block_size, span,
        *q.stride()[:2], *cache.stride()[:2], block_tables.stride(0),
        HEADS=_HEADS, RANK=max(16, block_of(rank)), ROPE=max(16, block_of(size - rank)), TILE=_TILE,
        num_stages=1,
    )  # fmt: skip
    merge_kernel[(sequences, heads)](
        sums, largest, totals, out, parts, rank, *out.stride()[:2], SIZE=block_of(rank)
    )


def _require_operands(out: torch.Tensor, q: torch.Tensor, cache: torch.Tensor) -> None:
    require(q.dim() == 3, f"q: shape {tuple(q.shape)}, expected [sequences, heads, size].")
    require(
        out.dim() == 3 and out.shape[:2] == q.shape[:2] and out.shape[2] <= q.shape[2],
        f"out: shape {tuple(out.shape)}, expected {tuple(q.shape[:2])} and a rank of at most "
        f"{q.shape[2]}.",
    )
    require(q.dtype in _DTYPES, f"q: {q.dtype}, expected one of {_DTYPES}.")
    require(
        cache.dim() == 3 and cache.shape[2] == q.shape[2],
        f"cache: shape {tuple(cache.shape)}, expected [blocks, block_size, {q.shape[2]}].",
    )
    require_like(q, {"out": out, "q": q, "cache": cache})
