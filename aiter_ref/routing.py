"""Mixture-of-experts routing: which experts a token goes to, and with which weights.

Experts are named best first; of equal scores the lower expert comes first. A NaN counts as larger
than all numbers, so that ids are valid whatever the scores are.
"""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def topk_softmax(
    gating: torch.Tensor, topk: int, *, renormalize: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax over the experts, then its ``topk`` largest.

    Shazeer et al., "Outrageously large neural networks" (arXiv 1701.06538), as Mixtral, Qwen3-MoE
    and DeepSeek-V2 use it. With ``renormalize`` the weights of a token sum to 1.

    gating [m, n] bf16/fp16/fp32 -> weights [m, topk] fp32, ids [m, topk] int32.
    """
    logits = gating.double()
    weights, ids = _largest(logits, topk)
    weights = torch.softmax(logits, dim=-1).gather(1, ids)
    if renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights.float(), ids.int()


def grouped_topk(
    gating: torch.Tensor,
    bias: torch.Tensor,
    topk: int,
    groups: int,
    topk_groups: int,
    *,
    renormalize: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Routing of DeepSeek-V3 (arXiv 2412.19437, section 2.1.2, equations 12 to 16).

        s      = sigmoid(gating)
        biased = s + bias, which decides who is chosen and nothing else
        a group of experts scores the sum of its two largest biased scores; the ``topk_groups`` best
        groups stay, and of their experts the ``topk`` of the largest biased scores
        weight = s, divided by the sum of the chosen ones with ``renormalize``, times ``scale``

    A group of one expert scores that expert's. ``topk`` is at most ``topk_groups * (n / groups)``.

    gating [m, n] bf16/fp16/fp32, bias [n] fp32 -> weights [m, topk] fp32, ids [m, topk] int32.
    """
    m, n = gating.shape
    scores = torch.sigmoid(gating.double())
    biased = scores + bias.double()
    by_group = biased.view(m, groups, n // groups)
    two = by_group.topk(min(2, n // groups), dim=-1).values.sum(dim=-1)
    _, kept = _largest(two, topk_groups)
    left_out = torch.ones(m, groups, dtype=torch.bool, device=gating.device).scatter_(
        1, kept, False
    )
    masked = by_group.masked_fill(left_out[:, :, None], -torch.inf).view(m, n)
    _, ids = _largest(masked, topk)
    weights = scores.gather(1, ids)
    if renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return (weights * scale).float(), ids.int()


def routed(weights: torch.Tensor, ids: torch.Tensor, experts: int) -> torch.Tensor:
    """Weight of each expert, 0 where a token does not go: what a layer makes of the routing.

    It is the same in whatever order the pairs of a token stand. NaN fills the row of a token that
    names an expert twice or one that does not exist.

    weights, ids [m, topk] -> [m, experts] of the weights' dtype.
    """
    wide = ids.long()
    valid = (wide >= 0) & (wide < experts)
    counts = torch.zeros(len(ids), experts + 1, device=ids.device)
    counts.scatter_add_(1, torch.where(valid, wide, experts), torch.ones_like(wide).float())
    dense = torch.zeros(len(ids), experts + 1, dtype=weights.dtype, device=ids.device)
    dense.scatter_(1, torch.where(valid, wide, experts), weights)
    wrong = (counts[:, :experts] > 1).any(1) | ~valid.all(1)
    return dense[:, :experts].masked_fill(wrong[:, None], torch.nan)


def _largest(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    ordered, columns = scores.sort(dim=-1, descending=True, stable=True)
    return ordered[:, :k], columns[:, :k]


def topk_softmax_cost(m: int, n: int, topk: int, itemsize: int, *, renormalize: bool) -> Cost:
    """Of ``topk_softmax``: largest, difference, exponential, sum, and a comparison to select.

    Each chosen weight is divided once, and summed and divided again with ``renormalize``.
    """
    chosen = 3 if renormalize else 1
    return Cost(m * (5 * n + chosen * topk), m * n * itemsize + _pairs(m, topk))


def grouped_topk_cost(m: int, n: int, topk: int, itemsize: int, *, renormalize: bool) -> Cost:
    """Of ``grouped_topk``: sigmoid (exponential, sum, quotient), bias, and two comparisons a score.

    One comparison ranks it within its group, one among those of the chosen groups. Each weight is
    scaled, and summed and divided with ``renormalize``; what groups cost is left out.
    """
    chosen = 3 if renormalize else 1
    return Cost(m * (6 * n + chosen * topk), m * n * itemsize + n * 4 + _pairs(m, topk))


def _pairs(m: int, topk: int) -> int:
    return m * topk * (4 + 4)
