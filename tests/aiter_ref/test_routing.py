"""References of routing and of the k largest against plain Python, and by hand."""

from __future__ import annotations

import math

import pytest
import torch

from aiter_ref import routing, topk

DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def best(scores, k):
    """Indices of the k largest of a list: the larger first, then the lower index."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k]


@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_topk_softmax(dtype, renormalize):
    gating = torch.randn(6, 40).to(dtype)
    weights, ids = routing.topk_softmax(gating, 5, renormalize=renormalize)
    assert (weights.dtype, ids.dtype) == (torch.float32, torch.int32)
    for row, got, names in zip(gating.tolist(), weights.tolist(), ids.tolist(), strict=True):
        assert names == best(row, 5)
        every = [math.exp(v) for v in row]
        total = sum(every[i] for i in names) if renormalize else sum(every)
        assert got == pytest.approx([every[i] / total for i in names], rel=1e-6)


def test_topk_softmax_by_hand():
    gating = torch.tensor([[0.0, math.log(3.0), 0.0]])
    weights, ids = routing.topk_softmax(gating, 2, renormalize=False)
    assert ids.tolist() == [[1, 0]]  # of the equal ones the lower
    torch.testing.assert_close(weights, torch.tensor([[0.6, 0.2]]))
    weights, _ = routing.topk_softmax(gating, 2, renormalize=True)
    torch.testing.assert_close(weights, torch.tensor([[0.75, 0.25]]))


@pytest.mark.parametrize(("groups", "kept", "k"), [(1, 1, 4), (4, 2, 6), (12, 5, 3), (3, 3, 12)])
@pytest.mark.parametrize("renormalize", [False, True])
def test_grouped_topk(groups, kept, k, renormalize):
    n = 12
    gating, bias = torch.randn(9, n), torch.rand(n)
    got = routing.grouped_topk(gating, bias, k, groups, kept, renormalize=renormalize, scale=2.5)
    size = n // groups
    for row, weights, names in zip(gating.tolist(), *(t.tolist() for t in got), strict=True):
        scores = [1 / (1 + math.exp(-v)) for v in row]
        biased = [s + b for s, b in zip(scores, bias.tolist(), strict=True)]
        of_group = [
            sum(sorted(biased[g * size : (g + 1) * size], reverse=True)[:2]) for g in range(groups)
        ]
        stay = set(best(of_group, kept))
        left = [b if i // size in stay else -math.inf for i, b in enumerate(biased)]
        assert names == best(left, k)
        total = sum(scores[i] for i in names) if renormalize else 1.0
        assert weights == pytest.approx([2.5 * scores[i] / total for i in names], rel=1e-6)


def test_the_bias_chooses_and_weighs_nothing():
    bias = torch.tensor([0.0, 0.9, 0.0, 0.0])
    weights, ids = routing.grouped_topk(
        torch.zeros(1, 4), bias, 1, 2, 1, renormalize=False, scale=1.0
    )
    assert ids.tolist() == [[1]]
    assert weights.tolist() == [[0.5]]


def test_routed_is_the_same_in_any_order_and_tells_what_no_layer_can_use():
    weights, ids = torch.tensor([[0.25, 0.75]]), torch.tensor([[2, 0]], dtype=torch.int32)
    want = [[0.75, 0.0, 0.25]]
    assert routing.routed(weights, ids, 3).tolist() == want
    assert routing.routed(weights.flip(1), ids.flip(1), 3).tolist() == want
    for wrong in ([2, 2], [2, 3], [-1, 0]):
        assert routing.routed(weights, torch.tensor([wrong]), 3).isnan().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_topk_per_row(dtype):
    scores = torch.randn(8, 50).to(dtype)
    lengths = torch.tensor([50, 0, 1, 9, 10, 11, 33, 49], dtype=torch.int32)
    ids = topk.topk_per_row(scores, lengths, 10)
    assert ids.dtype is torch.int32
    for row, length, names in zip(scores.tolist(), lengths.tolist(), ids.tolist(), strict=True):
        taken = best(row[:length], 10)
        assert names == taken + [-1] * (10 - len(taken))


def test_topk_per_row_of_more_than_there_are_columns():
    ids = topk.topk_per_row(torch.tensor([[1.0, 2.0]]), torch.tensor([2]), 4)
    assert ids.tolist() == [[1, 0, -1, -1]]


def test_nothing_beyond_the_length_is_looked_at():
    scores = torch.tensor([[1.0, -torch.inf, torch.nan, 9.0]])
    assert topk.topk_per_row(scores, torch.tensor([2]), 3).tolist() == [[0, 1, -1]]


def test_picked_gives_values_and_nan_for_what_is_no_choice():
    scores = torch.tensor([[5.0, 7.0, 7.0]])
    as_ids = lambda *ids: torch.tensor([ids], dtype=torch.int32)
    assert topk.picked(scores, as_ids(1, 2)).tolist() == [[7.0, 7.0]]
    assert topk.picked(scores, as_ids(2, 1)).tolist() == [[7.0, 7.0]]
    assert topk.picked(scores, as_ids(0, -1, -1)).tolist() == [[5.0, -math.inf, -math.inf]]
    for wrong in (3, -2, 2**31 - 1, -(2**31)):
        got = topk.picked(scores, as_ids(0, wrong))
        assert got[0, 0] == 5.0
        assert got[0, 1].isnan()
    assert topk.picked(scores, as_ids(2, 0, 2))[0].isnan().tolist() == [False, False, True]
