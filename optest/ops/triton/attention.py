"""Triton kernels of attention; the softmax is kept up in fp32 as tiles of tokens pass by."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import INTERPRETED, block_of, cast, require

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_CODES = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)
_TILE = 32  # tokens; 16 of fp32, so that the staged tiles fit the shared memory of every target
_SHORTEST_PART = 256  # tokens; shorter ones would be merged for longer than they are read
_PROGRAMS = 1024  # a few for each unit of the largest cards
_MOST_PARTS = 64
_FP32_BYTES = 4
NOTHING = tl.constexpr(-3.0e38)  # largest score of no tokens: finite, so that it may be subtracted


@triton.jit
def dot_as(a, b, dtype: tl.constexpr):
    """Product of fp32, fp8 or ``dtype`` operands, multiplied as ``dtype``, with sums in fp32."""
    if INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    return tl.dot(a.to(dtype), b.to(dtype), input_precision="ieee")


@triton.jit
def pa_decode_kernel(
    q, key_cache, value_cache, tables, lengths, sums, largest, totals,
    scale, value_scale, group, size, block_size, span,
    q_row, q_head, key_block, key_slot, key_head, value_block, value_slot, value_head, table_row,
    GROUP: tl.constexpr, SIZE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Program (s, g, i) attends part i of sequence s for the queries of KV head g.

    ``scale`` is the keys' too. fp8 is exact in the dtype of q, as which it is multiplied.
    sums [sequences, parts, heads, size], largest and totals [sequences, parts, heads] fp32.
    """
    sequence, head, part = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    begin = part * span
    end = tl.minimum(begin + span, tl.load(lengths + sequence))
    rows, columns = tl.arange(0, GROUP), tl.arange(0, SIZE)
    inside = (rows[:, None] < group) & (columns[None, :] < size)
    q_at = q + sequence * q_row + (head * group + rows[:, None]) * q_head + columns[None, :]
    queries = tl.load(q_at, mask=inside, other=0.0)
    most = tl.full([GROUP], float("-inf"), dtype=tl.float32)
    total = tl.zeros([GROUP], dtype=tl.float32)
    result = tl.zeros([GROUP, SIZE], dtype=tl.float32)
    for start in range(begin, end, TILE):
        tokens = start + tl.arange(0, TILE)
        there = tokens < end
        block = tl.load(tables + sequence * table_row + tokens // block_size, mask=there, other=0)
        block = block.to(tl.int64)
        slot = tokens % block_size
        held = there[:, None] & (columns[None, :] < size)
        key_at = key_cache + block * key_block + slot * key_slot + head * key_head
        keys = tl.load(key_at[:, None] + columns[None, :], mask=held, other=0.0)
        scores = dot_as(queries, tl.trans(keys), q.dtype.element_ty) * scale
        scores = tl.where(there[None, :], scores, float("-inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        before = tl.exp(most - now)
        powers = tl.exp(scores - now[:, None])
        value_at = value_cache + block * value_block + slot * value_slot + head * value_head
        values = tl.load(value_at[:, None] + columns[None, :], mask=held, other=0.0)
        result = result * before[:, None] + dot_as(powers, values, q.dtype.element_ty)
        total = total * before + tl.sum(powers, 1)
        most = now
    heads = tl.num_programs(1) * group
    row = (sequence * tl.num_programs(2) + part) * heads + head * group + rows
    tl.store(sums + row[:, None] * size + columns[None, :], result * value_scale, mask=inside)
    tl.store(largest + row, tl.where(total == 0.0, NOTHING, most), mask=rows < group)
    tl.store(totals + row, total, mask=rows < group)


@triton.jit
def merge_kernel(sums, largest, totals, out, parts, size, out_row, out_head, SIZE: tl.constexpr):
    """Program (s, h) merges the parts of head h of sequence s; no tokens at all give zeros."""
    sequence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.arange(0, SIZE)
    inside = columns < size
    most = NOTHING
    for part in range(parts):
        row = (sequence * parts + part) * tl.num_programs(1) + head
        most = tl.maximum(most, tl.load(largest + row))
    total = 0.0
    result = tl.zeros([SIZE], dtype=tl.float32)
    for part in range(parts):
        row = (sequence * parts + part) * tl.num_programs(1) + head
        weight = tl.exp(tl.load(largest + row) - most)
        total += tl.load(totals + row) * weight
        result += tl.load(sums + row * size + columns, mask=inside, other=0.0) * weight
    result = result / tl.where(total == 0.0, 1.0, total)
    at = out + sequence * out_row + head * out_head + columns
    tl.store(at, cast(result, out.dtype.element_ty), mask=inside)


def pa_decode(
    out: torch.Tensor,
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    scale: float,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> None:
    """Write out [sequences, heads, size] from q, caches [blocks, block_size, kv_heads, size].

    The caches are of q's dtype or of fp8; block_tables [sequences, blocks] int32, context_lens
    [sequences] int32. Contexts are cut into parts where sequences and heads alone would leave a
    card idle.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    _require_operands(out, q, key_cache, value_cache)
    require_tables(block_tables, context_lens, q.shape[0])
    if not out.numel():
        return
    sequences, heads, size = q.shape
    _, block_size, kv_heads, _ = key_cache.shape
    span, parts = parts_of(block_tables.shape[1] * block_size, sequences * kv_heads)
    sums = torch.empty(sequences, parts, heads, size, dtype=torch.float32, device=q.device)
    largest = torch.empty(sequences, parts, heads, dtype=torch.float32, device=q.device)
    totals = torch.empty_like(largest)
    width = max(16, block_of(size))  # 16 at least for the dot
    pa_decode_kernel[(sequences, kv_heads, parts)](
        q, key_cache, value_cache, block_tables, context_lens, sums, largest, totals,
        scale * k_scale, v_scale, heads // kv_heads, size, block_size, span,
        *q.stride()[:2], *key_cache.stride()[:3], *value_cache.stride()[:3],
        block_tables.stride(0),
        GROUP=max(16, block_of(heads // kv_heads)), SIZE=width,
        TILE=_TILE if q.element_size() < _FP32_BYTES else _TILE // 2,
    )  # fmt: skip
    merge_kernel[(sequences, heads)](
        sums, largest, totals, out, parts, size, *out.stride()[:2], SIZE=width
    )


def parts_of(most: int, programs: int) -> tuple[int, int]:
    """Tokens of a part, and parts of a sequence of ``most`` tokens for each of ``programs``."""
    wanted = min(_PROGRAMS // programs, most // _SHORTEST_PART, _MOST_PARTS)
    span = triton.cdiv(triton.cdiv(most, max(wanted, 1)), _TILE) * _TILE
    return max(span, _TILE), max(triton.cdiv(most, max(span, _TILE)), 1)


def _require_operands(
    out: torch.Tensor, q: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor
) -> None:
    require(q.dim() == 3, f"q: shape {tuple(q.shape)}, expected [sequences, heads, size].")
    require(out.shape == q.shape, f"out: shape {tuple(out.shape)}, expected {tuple(q.shape)}.")
    require(q.dtype in _DTYPES, f"q: {q.dtype}, expected one of {_DTYPES}.")
    require(
        key_cache.dim() == 4 and key_cache.shape[3] == q.shape[2],
        f"key_cache: shape {tuple(key_cache.shape)}, expected [blocks, block_size, kv_heads, "
        f"{q.shape[2]}].",
    )
    require(
        value_cache.shape == key_cache.shape,
        f"value_cache: shape {tuple(value_cache.shape)}, expected {tuple(key_cache.shape)}.",
    )
    heads, kv_heads = q.shape[1], key_cache.shape[2]
    require(
        heads == 0 or (kv_heads > 0 and heads % kv_heads == 0),
        f"q: {heads} heads, expected a multiple of the {kv_heads} of key_cache.",
    )
    require_like(q, {"out": out, "q": q})
    require(
        key_cache.dtype in (q.dtype, *_CODES),
        f"key_cache: {key_cache.dtype}, expected {q.dtype}, as q, or one of {_CODES}.",
    )
    require(
        value_cache.dtype is key_cache.dtype,
        f"value_cache: {value_cache.dtype}, expected {key_cache.dtype}, as key_cache.",
    )
    _require_dense({"key_cache": key_cache, "value_cache": value_cache})


def require_like(q: torch.Tensor, tensors: dict[str, torch.Tensor]) -> None:
    """Refuse operands of another dtype than q's, or whose last dimension is not dense.

    Raises:
        UsageError: naming the tensor, what it is and what was expected.
    """
    for name, tensor in tensors.items():
        require(tensor.dtype is q.dtype, f"{name}: {tensor.dtype}, expected {q.dtype}, as q.")
    _require_dense(tensors)


def _require_dense(tensors: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        require(
            tensor.shape[-1] <= 1 or tensor.stride(-1) == 1,
            f"{name}: strides {tensor.stride()}, expected 1 in the last dimension. Make it "
            "contiguous there.",
        )


def require_tables(block_tables: torch.Tensor, context_lens: torch.Tensor, sequences: int) -> None:
    """Refuse block tables or lengths of another shape or dtype.

    Raises:
        UsageError: naming the tensor, what it is and what was expected.
    """
    for name, tensor, axes in (
        ("block_tables", block_tables, 2),
        ("context_lens", context_lens, 1),
    ):
        require(
            tensor.dtype is torch.int32 and tensor.dim() == axes and len(tensor) == sequences,
            f"{name}: {tensor.dtype} of shape {tuple(tensor.shape)}, expected int32 of {axes} "
            f"axes, {sequences} rows.",
        )
        require(
            tensor.shape[-1] <= 1 or tensor.stride(-1) == 1,
            f"{name}: strides {tensor.stride()}, expected 1 in the last dimension.",
        )
