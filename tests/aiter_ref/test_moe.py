"""References of the layers behind a router, and their costs."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import moe


def test_sorting_by_hand():
    ids = torch.tensor([[2, 0], [2, 5], [2, -1]], dtype=torch.int32)
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.bfloat16)
    made = moe.moe_sorting(ids, weights, 4, 2)
    # Expert 0 has pair 1; expert 2 pairs 0, 2, 4; expert 5 and -1 are not of this rank.
    assert made.ids.tolist() == [1, 6, 0, 2, 4, 6, 6, 6, 6, 6]
    assert made.weights.tolist() == [2.0, 0.0, 1.0, 3.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert made.weights.dtype is torch.bfloat16
    assert made.experts.tolist() == [0, 2, 2, -1, -1]
    assert made.total.tolist() == [6]


@pytest.mark.parametrize("block", [1, 4, 64])
def test_every_pair_stands_once_in_a_block_of_its_expert(block):
    ids = torch.rand(33, 20).topk(3).indices.int()
    weights = torch.rand(33, 3)
    made = moe.moe_sorting(ids, weights, 20, block)
    real = made.ids < ids.numel()
    assert sorted(made.ids[real].tolist()) == list(range(ids.numel()))
    expert = made.experts.repeat_interleave(block)
    assert torch.equal(ids.reshape(-1)[made.ids[real].long()], expert[real])
    assert torch.equal(weights.reshape(-1)[made.ids[real].long()], made.weights[real])
    assert (made.weights[~real] == 0).all()
    assert (expert[: made.total] >= 0).all()
    assert (expert[made.total :] == -1).all()


@pytest.mark.parametrize(
    ("ids", "experts", "block"),
    [([[0], [1], [2]], 3, 5), ([[7], [7], [7], [7], [7]], 8, 4), ([[0]], 1, 1)],
)
def test_the_capacity_holds_the_worst_case(ids, experts, block):
    """One more pair than fills its blocks, in as many experts as there may be."""
    ids = torch.tensor(ids, dtype=torch.int32)
    made = moe.moe_sorting(ids, torch.ones(ids.shape), experts, block)
    assert (made.ids < ids.numel()).sum() == ids.numel()
    assert made.total <= len(made.ids)


def test_cost_is_what_is_read_and_written():
    ids, weights = torch.zeros(5, 3, dtype=torch.int32), torch.zeros(5, 3).half()
    made = moe.moe_sorting(ids, weights, 8, 16)
    moved = sum(each.nbytes for each in (ids, weights, *made))
    assert moe.moe_sorting_cost(5, 3, 8, 16, 2) == (0, moved)
