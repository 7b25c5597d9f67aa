"""Which experts a token is sent to, and the pairs sorted by expert."""

from __future__ import annotations

from functools import partial

import torch

from kernels.contest import SHARE_OF_COPY, Contest, Makers, against_torch
from kernels.inputs import random_rows, repeated, rows_of
from optest import native, ops

TOPK, BLOCK, GROUPS, KEPT_GROUPS, SCALE = 8, 64, 8, 4, 2.5

# Choosing is arithmetic: eight passes over a token's experts, each of which waits for the one
# before it. So the two that choose are held against inductor alone.


def buffers(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(tokens, TOPK), torch.empty(tokens, TOPK, dtype=torch.int32)


def topk_softmax(mib: int) -> Contest:
    """Of Qwen3: 128 experts."""
    experts = 128
    gating = random_rows(rows_of(mib, experts), experts)
    (weights, ids), run = buffers(len(gating)), native.csrc("routing").topk_softmax

    def way(gating: torch.Tensor) -> None:
        chosen = torch.topk(gating.float(), TOPK)
        weights.copy_(torch.softmax(chosen.values, -1))
        ids.copy_(chosen.indices)

    return Contest(
        f"{len(gating)}x{experts}",
        gating.nbytes + weights.nbytes + ids.nbytes,
        lambda: run(weights, ids, gating, True),
        against_torch(way, gating, slow=True),
        of_copy=0.0,
    )


def grouped_topk(mib: int) -> Contest:
    """Of DeepSeek-V3: 256 experts in 8 groups."""
    experts = 256
    gating, bias = random_rows(rows_of(mib, experts, 0.5), experts), torch.rand(experts) * 0.2
    (weights, ids), run = buffers(len(gating)), native.csrc("routing").grouped_topk

    def way(gating: torch.Tensor) -> None:
        scores = torch.sigmoid(gating.float())
        biased = (scores + bias).view(len(gating), GROUPS, -1)
        best = torch.topk(biased, 2).values.sum(-1)
        kept = torch.zeros_like(best).scatter(1, torch.topk(best, KEPT_GROUPS).indices, 1.0)
        masked = torch.where(kept[:, :, None] > 0, biased, -torch.inf).view(len(gating), -1)
        chosen = torch.topk(masked, TOPK).indices
        of_chosen = scores.gather(1, chosen)
        weights.copy_(of_chosen / of_chosen.sum(-1, keepdim=True) * SCALE)
        ids.copy_(chosen)

    return Contest(
        f"{len(gating)}x{experts}",
        gating.nbytes + weights.nbytes + ids.nbytes,
        lambda: run(weights, ids, gating, bias, GROUPS, KEPT_GROUPS, True, SCALE),
        against_torch(way, gating, slow=True),
        of_copy=0.0,
    )


def moe_sorting(mib: int) -> Contest:
    """Of DeepSeek-V3's pairs, ids and weights of ``mib`` together."""
    experts, tokens = 256, mib * 2**20 // (8 * TOPK)
    block = (torch.rand(4096, experts) + torch.rand(experts)).topk(TOPK).indices.int()
    ids = repeated(block, tokens)
    weights, run = torch.rand(tokens, TOPK), native.csrc("moe").moe_sorting
    out = ops.moe.sorted_buffers(ids.numel(), experts, BLOCK, weights.dtype, ids.device)
    pairs = ids.numel()

    def way(ids: torch.Tensor, weights: torch.Tensor) -> None:
        flat = ids.view(-1)
        order = torch.sort(flat, stable=True).indices
        counts = torch.bincount(flat, minlength=experts)
        blocks = (counts + BLOCK - 1) // BLOCK
        ends = blocks.cumsum(0)
        up = (ends - blocks) * BLOCK - (counts.cumsum(0) - counts)
        place = torch.arange(pairs) + up[flat[order]]
        out.ids.fill_(pairs).scatter_(0, place, order.int())
        out.weights.zero_().scatter_(0, place, weights.view(-1)[order])
        expert = torch.searchsorted(ends, torch.arange(out.experts.numel()), right=True)
        out.experts.copy_(torch.where(expert < experts, expert, -1))
        out.total.copy_(ends[-1:] * BLOCK)

    return Contest(
        f"{tokens}x{TOPK} of {experts}",
        ids.nbytes + weights.nbytes + sum(made.nbytes for made in out),
        lambda: run(*out, ids, weights, experts, BLOCK),
        against_torch(way, ids, weights, slow=True),
        SHARE_OF_COPY,
    )


def contests(mib: int) -> Makers:
    makers = (topk_softmax, grouped_topk, moe_sorting)
    return {make.__name__: partial(make, mib) for make in makers}
