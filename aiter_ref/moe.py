"""The layers of a mixture of experts behind the router."""

from __future__ import annotations

from typing import NamedTuple

import torch

from aiter_ref.cost import Cost


class Sorted(NamedTuple):
    """Pairs of a token and an expert, sorted by expert and padded to blocks.

    A grouped GEMM takes one block a time: all its rows have the same expert.

    Attributes:
        ids: [capacity] int32. An entry is a pair, ``token * topk + slot``; pairs of an expert stand
            in ascending order, experts too. Each expert's entries begin at a multiple of ``block``
            and are filled up to one with the padding ``m * topk``, as are all entries behind the
            last expert's. An expert without pairs has no entries.
        weights: [capacity] of the dtype of the weights: that of the pair, 0 for padding.
        experts: [capacity / block] int32, the expert of each block; -1 behind the last.
        total: [1] int32, entries up to the end of the last expert's, a multiple of ``block``.
    """

    ids: torch.Tensor
    weights: torch.Tensor
    experts: torch.Tensor
    total: torch.Tensor


def sorted_capacity(pairs: int, experts: int, block: int) -> int:
    """Entries that ``pairs`` need at the most, a multiple of ``block``."""
    return (pairs + min(pairs, experts) * (block - 1)) // block * block


def moe_sorting(ids: torch.Tensor, weights: torch.Tensor, experts: int, block: int) -> Sorted:
    """Sort the pairs of a router by expert; ``Sorted`` states the format.

    Pairs whose id lies outside of 0 to ``experts - 1`` (those of another rank under expert
    parallelism) are left out.

    ids [m, topk] int32, weights [m, topk] bf16/fp16/fp32.
    """
    flat, pairs = ids.reshape(-1), ids.numel()
    capacity = sorted_capacity(pairs, experts, block)
    made = Sorted(
        torch.full((capacity,), pairs, dtype=torch.int32, device=ids.device),
        torch.zeros(capacity, dtype=weights.dtype, device=ids.device),
        torch.full((capacity // block,), -1, dtype=torch.int32, device=ids.device),
        torch.zeros(1, dtype=torch.int32, device=ids.device),
    )
    start = 0
    for expert in range(experts):
        mine = (flat == expert).nonzero()[:, 0]
        made.ids[start : start + len(mine)] = mine.int()
        made.weights[start : start + len(mine)] = weights.reshape(-1)[mine]
        end = start + -(-len(mine) // block) * block
        made.experts[start // block : end // block] = expert
        start = end
    made.total[0] = start
    return made


def moe_sorting_cost(m: int, topk: int, experts: int, block: int, itemsize: int) -> Cost:
    """Of ``moe_sorting``: nothing is computed; ids and weights are read, all entries written."""
    pairs = m * topk
    capacity = sorted_capacity(pairs, experts, block)
    each = 4 + itemsize
    return Cost(0, (pairs + capacity) * each + capacity // block * 4 + 4)
