"""Choosing from long rows: the k largest of scores, the next token."""

from __future__ import annotations

from functools import partial

import torch

from kernels.contest import SHARE_OF_COPY, SHARE_OF_COPY_FP8, Contest, Makers, against_torch
from kernels.inputs import repeated
from optest import native

VOCABULARY = 128256  # of Llama-3


def random_scores(rows: int, length: int) -> torch.Tensor:
    """Rows [rows, length] fp32: a few repeated."""
    return repeated(torch.randn(min(rows, 32), length), rows)


def topk_per_row(mib: int) -> Contest:
    """Of DeepSeek-V3.2's indexer: 2048 of 65536."""
    n, k = 65536, 2048
    scores = random_scores(mib * 2**20 // (4 * n), n)
    lengths = torch.full((len(scores),), n, dtype=torch.int32)
    ids, run = torch.empty(len(scores), k, dtype=torch.int32), native.csrc("topk").topk_per_row

    def way(scores: torch.Tensor) -> None:
        ids.copy_(torch.topk(scores, k, sorted=False).indices)

    return Contest(
        f"{len(scores)}x{n} top {k}",
        scores.nbytes + ids.nbytes,
        lambda: run(ids, scores, lengths),
        against_torch(way, scores, slow=True),
        SHARE_OF_COPY,
    )


def of_best(logits: torch.Tensor, uniform: torch.Tensor, top_k: int) -> torch.Tensor:
    values, places = torch.topk(logits, top_k)
    sums = torch.softmax(values, -1).cumsum(-1)
    at = (sums > uniform[:, None] * sums[:, -1:]).int().argmax(-1, keepdim=True)
    return places.gather(1, at)


def of_nucleus(logits: torch.Tensor, uniform: torch.Tensor, top_p: float) -> torch.Tensor:
    ordered, places = torch.sort(logits, dim=-1, descending=True)
    p = torch.softmax(ordered, -1)
    sums = torch.where(p.cumsum(-1) - p < top_p, p, 0.0).cumsum(-1)
    at = (sums > uniform[:, None] * sums[:, -1:]).int().argmax(-1, keepdim=True)
    return places.gather(1, at)


def of_all(logits: torch.Tensor, uniform: torch.Tensor, min_p: float) -> torch.Tensor:
    weights = torch.exp(logits - logits.amax(-1, keepdim=True))
    sums = torch.where(weights >= min_p, weights, 0.0).cumsum(-1)
    return (sums > uniform[:, None] * sums[:, -1:]).int().argmax(-1, keepdim=True)


# top_k, top_p, min_p of ours; torch's way with the one that limits. Only the first draws without an
# exponential of each logit.
LIMITS = {
    "top_k": ((50, 1.0, 0.0), of_best, 50, SHARE_OF_COPY),
    "top_p": ((0, 0.9, 0.0), of_nucleus, 0.9, SHARE_OF_COPY_FP8),
    "min_p": ((0, 1.0, 0.05), of_all, 0.05, SHARE_OF_COPY_FP8),
}


def sampling(mib: int, limit: str) -> Contest:
    (top_k, top_p, min_p), way, bound, of_copy = LIMITS[limit]
    logits = random_scores(mib * 2**20 // (4 * VOCABULARY), VOCABULARY).mul_(4)
    m, run = len(logits), native.csrc("sampling").sampling
    each = (torch.full((m,), top_k).int(), torch.full((m,), top_p), torch.full((m,), min_p))
    uniform, tokens = torch.rand(m), torch.empty(m, dtype=torch.int32)
    return Contest(
        f"{m}x{VOCABULARY}",
        logits.nbytes,
        lambda: run(tokens, logits, *each, uniform),
        against_torch(way, logits, uniform, bound, slow=True),
        of_copy,
    )


def contests(mib: int) -> Makers:
    limits = {f"sampling {limit}": partial(sampling, mib, limit) for limit in LIMITS}
    return {"topk_per_row": partial(topk_per_row, mib), **limits}
