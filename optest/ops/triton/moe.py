"""Triton kernels of a mixture of experts; the format is that of ``aiter_ref.moe.Sorted``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import block_of, require

_LARGEST_BLOCK = 1024
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit
def count_kernel(
    counts, sorted_ids, sorted_weights, block_experts, ids, pairs, capacity, share, size,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Program i counts the pairs of expert i, and puts padding in ``share`` of the entries."""
    expert = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    found = tl.zeros([BLOCK], dtype=tl.int32)
    for start in range(0, pairs, BLOCK):
        pair = start + lanes
        found += (tl.load(ids + pair, mask=pair < pairs, other=-1) == expert).to(tl.int32)
    tl.store(counts + expert, tl.sum(found, 0))
    nothing = tl.zeros([BLOCK], dtype=tl.float32).to(sorted_weights.dtype.element_ty)
    for start in range(0, share, BLOCK):
        at = expert * share + start + lanes
        inside = (start + lanes < share) & (at < capacity)
        tl.store(sorted_ids + at, tl.zeros([BLOCK], dtype=tl.int32) + pairs, mask=inside)
        tl.store(sorted_weights + at, nothing, mask=inside)
        first = inside & (at % size == 0)
        tl.store(block_experts + at // size, tl.full([BLOCK], -1, dtype=tl.int32), mask=first)


@triton.jit
def place_kernel(
    sorted_ids, sorted_weights, block_experts, total, counts, ids, weights, pairs, experts, size,
    EXPERTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program i writes the pairs of expert i in ascending order, behind those of lower experts."""
    expert = tl.program_id(0)
    all_experts = tl.arange(0, EXPERTS)
    count = tl.load(counts + all_experts, mask=all_experts < experts, other=0)
    blocks = (count + size - 1) // size
    first = tl.sum(tl.where(all_experts < expert, blocks, 0), 0)
    mine = tl.sum(tl.where(all_experts == expert, blocks, 0), 0)
    if expert == 0:
        tl.store(total, tl.sum(blocks, 0) * size)
    lanes = tl.arange(0, BLOCK)
    for start in range(0, mine, BLOCK):
        at = start + lanes
        name = tl.zeros([BLOCK], dtype=tl.int32) + expert
        tl.store(block_experts + first + at, name, mask=at < mine)
    place = first * size
    for start in range(0, pairs, BLOCK):
        pair = start + lanes
        taken = tl.load(ids + pair, mask=pair < pairs, other=-1) == expert
        order = tl.cumsum(taken.to(tl.int32), 0)
        weight = tl.load(weights + pair, mask=taken, other=0.0)
        tl.store(sorted_ids + place + order - 1, pair, mask=taken)
        tl.store(sorted_weights + place + order - 1, weight, mask=taken)
        place += tl.max(order, 0)


def moe_sorting(
    sorted_ids: torch.Tensor,
    sorted_weights: torch.Tensor,
    block_experts: torch.Tensor,
    total: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    experts: int,
    block: int,
) -> None:
    """Write the four tensors of the format from ids and weights [m, topk].

    Raises:
        UsageError: a shape, stride or dtype that the kernels do not take.
    """
    _require("ids", ids, tuple(ids.shape), torch.int32)
    require(ids.dim() == 2, f"ids: shape {tuple(ids.shape)}, expected [m, topk].")
    require(weights.dtype in _DTYPES, f"weights: {weights.dtype}, expected one of {_DTYPES}.")
    _require("weights", weights, tuple(ids.shape), weights.dtype)
    require(
        experts >= 0 and block >= 1, f"experts={experts}, block={block}: expected 0, 1 or more."
    )
    pairs = ids.numel()
    capacity = (pairs + min(pairs, experts) * (block - 1)) // block * block
    _require("sorted_ids", sorted_ids, (capacity,), torch.int32)
    _require("sorted_weights", sorted_weights, (capacity,), weights.dtype)
    _require("block_experts", block_experts, (capacity // block,), torch.int32)
    _require("total", total, (1,), torch.int32)
    if not experts or not pairs:
        for tensor, value in zip(
            (sorted_ids, sorted_weights, block_experts, total), (pairs, 0, -1, 0), strict=True
        ):
            tensor.fill_(value)
        return
    counts = torch.empty(experts, dtype=torch.int32, device=ids.device)
    lanes = block_of(pairs, largest=_LARGEST_BLOCK)
    count_kernel[(experts,)](
        counts, sorted_ids, sorted_weights, block_experts, ids, pairs, capacity,
        triton.cdiv(capacity, experts), block, BLOCK=lanes,
    )  # fmt: skip
    place_kernel[(experts,)](
        sorted_ids, sorted_weights, block_experts, total, counts, ids, weights, pairs, experts,
        block, EXPERTS=int(triton.next_power_of_2(experts)), BLOCK=lanes,
    )  # fmt: skip


def _require(name: str, tensor: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    require(
        tuple(tensor.shape) == shape and tensor.is_contiguous() and tensor.dtype is dtype,
        f"{name}: {tensor.dtype} {tuple(tensor.shape)} with strides {tensor.stride()}, expected "
        f"contiguous {dtype} {shape}.",
    )
