"""Drawing the next token from logits, by uniform numbers that are given.

Tokens are ranked by their logits, the larger first, of equal ones the lower token. Three limits
each keep a beginning of that ranking:

    top_k   the first ``top_k`` tokens; 0, or more than there are, keeps all
    top_p   of these, with their probabilities renormalised, the fewest whose sum reaches ``top_p``
            (nucleus sampling, Holtzman et al., arXiv 1904.09751); 1 keeps all
    min_p   those whose probability is at least ``min_p`` times the largest (Nguyen et al., arXiv
            2407.01082); 0 keeps all

The first token is always kept. The drawn token is the first in the order of the vocabulary at which
the running sum of the kept probabilities exceeds ``uniform`` times their sum.
"""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def ranked(logits: torch.Tensor, top_k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities among the first ``top_k`` tokens, by rank, and the tokens; 0 for the others.

    logits [m, n], top_k [m] int32 -> [m, n] fp64, [m, n] int64.
    """
    ordered, tokens = logits.double().sort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(logits.shape[1], device=logits.device)
    limits = torch.where(top_k > 0, top_k, logits.shape[1])
    limited = ordered.masked_fill(ranks >= limits[:, None], -torch.inf)
    return torch.softmax(limited, dim=-1), tokens


def kept_probabilities(
    logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor, min_p: torch.Tensor
) -> torch.Tensor:
    """Probabilities that the three limits leave, 0 for the tokens that are out; they sum to 1.

    logits [m, n] bf16/fp16/fp32, top_k [m] int32, top_p, min_p [m] fp32 -> [m, n] fp64.
    """
    p, tokens = ranked(logits, top_k)
    before = p.cumsum(dim=-1) - p
    kept = (before < top_p.double()[:, None]) | (top_p >= 1)[:, None]
    kept &= p >= min_p.double()[:, None] * p[:, :1]
    kept[:, :1] = True
    p = torch.where(kept, p, 0.0)
    return torch.zeros_like(p).scatter(1, tokens, p / p.sum(dim=-1, keepdim=True))


def sampling(
    logits: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    uniform: torch.Tensor,
) -> torch.Tensor:
    """Draw a token from each row; -1 from a vocabulary without tokens.

    logits [m, n] bf16/fp16/fp32, top_k [m] int32, top_p, min_p, uniform [m] fp32, the last of them
    in [0, 1) -> [m] int32.
    """
    if not logits.shape[1]:
        return torch.full((len(logits),), -1, dtype=torch.int32, device=logits.device)
    p = kept_probabilities(logits, top_k, top_p, min_p)
    exceeds = p.cumsum(dim=-1) > uniform.double()[:, None]
    # Where rounding leaves the last sum below: the last token that is kept.
    last = (p > 0).int().cumsum(dim=-1).argmax(dim=-1)
    return torch.where(exceeds.any(dim=-1), exceeds.int().argmax(dim=-1), last).int()


def sampling_cost(m: int, n: int, itemsize: int) -> Cost:
    """Of ``sampling``: largest, difference, exponential and sum of each logit, read once.

    How many are ranked depends on the limits and is left out, as is what is done once a row.
    """
    return Cost(4 * m * n, m * n * itemsize + m * (4 * 4 + 4))
