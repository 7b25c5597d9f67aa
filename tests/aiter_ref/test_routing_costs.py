"""Costs of routing against an instrumented count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from aiter_ref import routing as ref
from aiter_ref import topk

sys.path.append(str(Path(__file__).parent))
from counting import operations

M, N, K = 48, 256, 8


def weighed(weights, renormalize):
    return weights / weights.sum(-1, keepdim=True) if renormalize else weights


def softmax_of_chosen(gating, least, renormalize):
    """With a comparison of each logit to the least chosen one in place of a selection."""
    terms = torch.exp(gating - gating.amax(-1, keepdim=True))
    _ = gating >= least
    return weighed(terms[:, :K] / terms.sum(-1, keepdim=True), renormalize)


def scores_of_chosen(gating, bias, least, renormalize):
    scores = torch.reciprocal(torch.exp(-gating) + 1)
    biased = scores + bias
    _ = biased >= least, biased >= least
    return weighed(scores[:, :K], renormalize) * 2.5


@pytest.mark.parametrize("renormalize", [False, True])
def test_topk_softmax(renormalize):
    gating = torch.randn(M, N)
    cost = ref.topk_softmax_cost(M, N, K, 4, renormalize=renormalize)
    assert operations(softmax_of_chosen, gating, gating[:, :1], renormalize) == cost.flops
    made = ref.topk_softmax(gating, K, renormalize=renormalize)
    assert cost.nbytes == gating.nbytes + sum(each.nbytes for each in made)


@pytest.mark.parametrize("renormalize", [False, True])
def test_grouped_topk(renormalize):
    gating, bias = torch.randn(M, N), torch.randn(N)
    cost = ref.grouped_topk_cost(M, N, K, 4, renormalize=renormalize)
    assert operations(scores_of_chosen, gating, bias, gating[:, :1], renormalize) == cost.flops
    made = ref.grouped_topk(gating, bias, K, 8, 4, renormalize=renormalize, scale=2.5)
    assert cost.nbytes == gating.nbytes + bias.nbytes + sum(each.nbytes for each in made)


def test_topk_per_row():
    scores = torch.randn(3, 64)
    lengths = torch.tensor([64, 0, 10], dtype=torch.int32)
    cost = topk.topk_per_row_cost(lengths, 7, 2)
    count = sum(
        operations(torch.amax, row[:n]) for row, n in zip(scores, lengths, strict=True) if n
    )
    assert cost.flops == count
    assert cost.nbytes == 74 * 2 + 3 * 7 * 4 + lengths.nbytes
