"""Triton kernels of mixture-of-experts routing; the rules are those of ``aiter_ref.routing``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import INTERPRETED, require, require_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

# No number has this key: an expert that is not there, or is taken already.
_TAKEN = tl.constexpr(-(2**31))
_NAN_KEY = tl.constexpr(2**31 - 1)
_WARP_OF = 256  # experts that one warp takes well


@triton.jit
def key_of(value):
    """Whole numbers that order as fp32 ``value`` does, NaN above all; zeros are equal."""
    bits = (value + 0.0).to(tl.int32, bitcast=True)
    key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return tl.where(value != value, _NAN_KEY, key)  # noqa: PLR0124


@triton.jit
def _value_of(key):
    bits = key ^ ((key >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _first_of(key, best, places, END: tl.constexpr):
    """First of ``places`` where ``key`` is ``best``."""
    return tl.min(tl.where(key == best, places, END), 0)


@triton.jit
def topk_softmax_kernel(
    weights, ids, gating, n, gating_row,
    K: tl.constexpr, K_BLOCK: tl.constexpr, RENORMALIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program i routes token i: the largest is taken ``K`` times."""
    row = tl.program_id(0).to(tl.int64)
    experts = tl.arange(0, BLOCK)
    slots = tl.arange(0, K_BLOCK)
    inside = experts < n
    value = tl.load(gating + row * gating_row + experts, mask=inside, other=0.0).to(tl.float32)
    key = tl.where(inside, key_of(value), _TAKEN)
    largest = _value_of(tl.max(key, 0))
    chosen = tl.full([K_BLOCK], -float("inf"), dtype=tl.float32)
    names = tl.zeros([K_BLOCK], dtype=tl.int32)
    for slot in range(K):
        best = tl.max(key, 0)
        expert = _first_of(key, best, experts, BLOCK)
        chosen = tl.where(slots == slot, _value_of(best), chosen)
        names = tl.where(slots == slot, expert, names)
        key = tl.where(experts == expert, _TAKEN, key)
    weight = tl.where(slots < K, tl.exp(chosen - largest), 0.0)
    if RENORMALIZE:
        total = tl.sum(weight, 0)
    else:
        total = tl.sum(tl.where(inside, tl.exp(value - largest), 0.0), 0)
    at = row * K + slots
    tl.store(weights + at, weight / total, mask=slots < K)
    tl.store(ids + at, names, mask=slots < K)


@triton.jit
def grouped_topk_kernel(
    weights, ids, gating, bias, size, gating_row, scale,
    GROUPS: tl.constexpr, KEPT: tl.constexpr, K: tl.constexpr, K_BLOCK: tl.constexpr,
    RENORMALIZE: tl.constexpr, GROUP_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program i routes token i; experts lie as [GROUP_BLOCK, BLOCK], a group a row."""
    row = tl.program_id(0).to(tl.int64)
    groups = tl.arange(0, GROUP_BLOCK)
    members = tl.arange(0, BLOCK)
    slots = tl.arange(0, K_BLOCK)
    place = groups[:, None] * BLOCK + members[None, :]
    inside = (groups[:, None] < GROUPS) & (members[None, :] < size)
    expert = groups[:, None] * size + members[None, :]
    logit = tl.load(gating + row * gating_row + expert, mask=inside, other=0.0).to(tl.float32)
    score = 1.0 / (1.0 + tl.exp(-logit))
    biased = score + tl.load(bias + expert, mask=inside, other=0.0)
    key = tl.where(inside, key_of(biased), _TAKEN)

    if KEPT < GROUPS:
        leader = tl.max(key, 1)
        first = tl.min(tl.where(key == leader[:, None], members[None, :], BLOCK), 1)
        second = tl.max(tl.where(members[None, :] == first[:, None], _TAKEN, key), 1)
        two = _value_of(leader) + tl.where(second == _TAKEN, 0.0, _value_of(second))
        group_key = tl.where(groups < GROUPS, key_of(two), _TAKEN)
        kept = tl.zeros([GROUP_BLOCK], dtype=tl.int32)
        for _ in range(KEPT):
            group = _first_of(group_key, tl.max(group_key, 0), groups, GROUP_BLOCK)
            kept = tl.where(groups == group, 1, kept)
            group_key = tl.where(groups == group, _TAKEN, group_key)
        key = tl.where(kept[:, None] == 1, key, _TAKEN)

    chosen = tl.zeros([K_BLOCK], dtype=tl.float32)
    names = tl.zeros([K_BLOCK], dtype=tl.int32)
    for slot in range(K):
        best = tl.max(tl.max(key, 1), 0)
        at = tl.min(tl.min(tl.where(key == best, place, GROUP_BLOCK * BLOCK), 1), 0)
        taken = place == at
        weight = tl.sum(tl.sum(tl.where(taken, score, 0.0), 1), 0)
        chosen = tl.where(slots == slot, weight, chosen)
        names = tl.where(slots == slot, at // BLOCK * size + at % BLOCK, names)
        key = tl.where(taken, _TAKEN, key)
    if RENORMALIZE:
        chosen = chosen / tl.sum(chosen, 0)
    out = row * K + slots
    tl.store(weights + out, chosen * scale, mask=slots < K)
    tl.store(ids + out, names, mask=slots < K)


def topk_softmax(
    weights: torch.Tensor, ids: torch.Tensor, gating: torch.Tensor, renormalize: bool
) -> None:
    """Write weights and ids [m, k] of the k largest of the softmax of gating [m, n].

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    m, k = _require_pairs(weights, ids, gating)
    n = gating.shape[1]
    if m and k:
        block = int(triton.next_power_of_2(n))
        topk_softmax_kernel[(m,)](
            weights, ids, gating, n, gating.stride(0),
            RENORMALIZE=renormalize, BLOCK=block, **_pairs(k), **_warps(block),
        )  # fmt: skip


def grouped_topk(
    weights: torch.Tensor,
    ids: torch.Tensor,
    gating: torch.Tensor,
    bias: torch.Tensor,
    groups: int,
    topk_groups: int,
    renormalize: bool,
    scale: float,
) -> None:
    """Write weights and ids [m, k] of DeepSeek-V3's routing of gating [m, n] with bias [n].

    Raises:
        UsageError: a shape, stride, dtype or count that the kernel does not take.
    """
    m, k = _require_pairs(weights, ids, gating)
    n = gating.shape[1]
    require_rows("bias", bias, (n,))
    require(groups >= 1 and n % groups == 0, f"groups={groups}: expected a divisor of {n}.")
    require(
        1 <= topk_groups <= groups, f"topk_groups={topk_groups}: expected 1 to groups={groups}."
    )
    size = n // groups
    require(
        k <= topk_groups * size,
        f"weights: {k} columns, expected at most {topk_groups * size}, the experts that are left.",
    )
    if m and k:
        block, group_block = (int(triton.next_power_of_2(count)) for count in (size, groups))
        grouped_topk_kernel[(m,)](
            weights, ids, gating, bias, size, gating.stride(0), scale,
            GROUPS=groups, KEPT=topk_groups, RENORMALIZE=renormalize, GROUP_BLOCK=group_block,
            BLOCK=block, **_pairs(k), **_warps(group_block * block),
        )  # fmt: skip


def _pairs(k: int) -> Mapping[str, int]:
    return {"K": k, "K_BLOCK": int(triton.next_power_of_2(k))}


def _warps(experts: int) -> Mapping[str, int]:
    """Few experts a warp: reductions over them then stay within it."""
    return {} if INTERPRETED else {"num_warps": min(max(experts // _WARP_OF, 1), 8)}


def _require_pairs(
    weights: torch.Tensor, ids: torch.Tensor, gating: torch.Tensor
) -> tuple[int, int]:
    require(gating.dim() == 2, f"gating: shape {tuple(gating.shape)}, expected [m, n].")
    require_rows("gating", gating, tuple(gating.shape))
    m, n = gating.shape
    require(
        weights.dim() == 2 and len(weights) == m and weights.shape[1] <= n,
        f"weights: shape {tuple(weights.shape)}, expected [{m}, k] with k at most {n}.",
    )
    for name, tensor, dtype in (("weights", weights, torch.float32), ("ids", ids, torch.int32)):
        require(
            tensor.shape == weights.shape and tensor.is_contiguous() and tensor.dtype is dtype,
            f"{name}: {tensor.dtype} {tuple(tensor.shape)} with strides {tensor.stride()}, "
            f"expected contiguous {dtype} {tuple(weights.shape)}.",
        )
    return m, weights.shape[1]
