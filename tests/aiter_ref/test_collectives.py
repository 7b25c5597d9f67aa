"""The reference of collectives, and their costs."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from aiter_ref import collectives as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_every_rank_has_the_exact_sum_rounded_once(dtype):
    """Sums that are rounded at each rank, or a rank that keeps its own."""
    x = torch.randn(5, 3, 4).to(dtype)
    made = ref.all_reduce(x)
    assert made.dtype is dtype
    for index in torch.cartesian_prod(torch.arange(3), torch.arange(4)).tolist():
        each = x[(slice(None), *index)].tolist()
        exact = torch.tensor(float(sum(map(Fraction, each))), dtype=torch.float64).to(dtype)
        assert (made[(..., *index)] == exact).all()


def test_the_results_of_ranks_are_memory_of_their_own():
    made = ref.all_reduce(torch.ones(2, 3))
    made[0] = 7
    assert (made[1] == 2).all()


def test_cost():
    x = torch.randn(4, 6, 8)
    cost = ref.all_reduce_cost(4, 48, 4)
    assert operations(ref.all_reduce, x) == cost.flops
    assert cost.nbytes == x.nbytes + ref.all_reduce(x).nbytes
