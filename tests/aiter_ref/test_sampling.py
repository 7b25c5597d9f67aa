"""The reference of sampling against plain Python, and its cost."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch

from aiter_ref import sampling as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations


def rows(*values):
    return torch.tensor(values)


def kept_by_hand(logits, top_k, top_p, min_p):
    ranking = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    ranking = ranking[: top_k or None]
    weights = [math.exp(logits[i]) for i in ranking]
    total, running, kept = sum(weights), 0.0, []
    for token, weight in zip(ranking, weights, strict=True):
        if kept and (running >= top_p * total or weight < min_p * weights[0]):
            break
        kept.append(token)
        running += weight
    return kept


@pytest.mark.parametrize("top_k", [0, 1, 5, 99])
@pytest.mark.parametrize("top_p", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("min_p", [0.0, 0.1, 1.0])
def test_limits(top_k, top_p, min_p):
    logits = torch.randn(4, 20)
    args = (torch.full((4,), v) for v in (top_k, top_p, min_p))
    p = ref.kept_probabilities(logits, *args)
    for row, got in zip(logits.tolist(), p, strict=True):
        kept = kept_by_hand(row, top_k, top_p if top_p < 1 else math.inf, min_p)
        assert got.nonzero()[:, 0].tolist() == sorted(kept)
        total = sum(math.exp(row[i]) for i in kept)
        assert got[kept].tolist() == pytest.approx([math.exp(row[i]) / total for i in kept])


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0, 0), (0.24, 0), (0.26, 1), (0.74, 1), (0.76, 3), (0.9999, 3)]
)
def test_tokens_are_drawn_in_the_order_of_the_vocabulary(uniform, token):
    logits = rows([0.25, 0.5, 0.0, 0.25]).log()
    got = ref.sampling(logits, rows(0), rows(1.0), rows(0.0), rows(uniform))
    assert got.tolist() == [token]
    assert got.dtype is torch.int32


def test_equal_logits_rank_by_token_and_masked_ones_are_never_drawn():
    logits = rows([-torch.inf, 0.0, 0.0, 0.0])
    for uniform, token in ((0.0, 1), (0.49, 1), (0.51, 2), (0.99, 2)):
        got = ref.sampling(logits, rows(2), rows(1.0), rows(0.0), rows(uniform))
        assert got.tolist() == [token]


def test_no_vocabulary():
    got = ref.sampling(torch.zeros(2, 0), *(torch.ones(2) for _ in range(4)))
    assert got.tolist() == [-1, -1]


def softmax_terms(logits):
    return torch.exp(logits - logits.amax(-1, keepdim=True)).sum(-1)


def test_cost():
    logits = torch.randn(48, 256)
    cost = ref.sampling_cost(48, 256, 4)
    assert operations(softmax_terms, logits) == cost.flops
    assert cost.nbytes == logits.nbytes + 48 * 4 * 4 + 48 * 4
