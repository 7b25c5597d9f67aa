"""Sorting of a router's pairs, against the reference in every entry."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import moe as ref
from optest import native

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# The last is longer than what one thread counts at a time: the order must hold across threads.
SHAPES = [(1, 1, 1), (1, 8, 2), (17, 5, 3), (129, 127, 7), (3000, 256, 8)]


@pytest.fixture(scope="module")
def ops():
    return native.csrc("moe")


def room(pairs, experts, block, dtype):
    capacity = ref.sorted_capacity(pairs, experts, block)
    full = lambda size, kind: torch.full((size,), 77, dtype=kind)
    ints = torch.int32
    return full(capacity, ints), full(capacity, dtype), full(capacity // block, ints), full(1, ints)


def assert_sorted(ops, ids, weights, experts, block):
    made = room(ids.numel(), experts, block, weights.dtype)
    ops.moe_sorting(*made, ids, weights, experts, block)
    for got, want in zip(made, ref.moe_sorting(ids, weights, experts, block), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("block", [1, 16, 100])
@pytest.mark.parametrize("mnk", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_moe_sorting(ops, dtype, mnk, block):
    m, n, k = mnk
    ids = torch.rand(m, n).topk(k).indices.int()
    assert_sorted(ops, ids, torch.rand(m, k).to(dtype), n, block)


def test_pairs_of_other_ranks_are_left_out(ops):
    ids = torch.tensor([[-1, 4, 2**31 - 1], [3, 0, -(2**31)]], dtype=torch.int32)
    assert_sorted(ops, ids, torch.rand(2, 3), 4, 8)


def test_all_pairs_of_one_expert(ops):
    assert_sorted(ops, torch.full((20_000, 1), 3, dtype=torch.int32), torch.rand(20_000, 1), 5, 64)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_past_the_caches(ops, dtype):
    """More pairs than a last-level cache keeps go by whole lines, of which experts share none."""
    ids = torch.randint(-1, 61, (4096, 8), dtype=torch.int32).repeat(512, 1)[:-1]
    assert_sorted(ops, ids, torch.rand(ids.shape).to(dtype), 60, 10)


@pytest.mark.parametrize(("shape", "experts"), [((0, 2), 4), ((3, 0), 4), ((2, 2), 0)])
def test_nothing_to_sort(ops, shape, experts):
    ids = torch.zeros(shape, dtype=torch.int32)
    assert_sorted(ops, ids, torch.ones(shape), experts, 16)


IDS, W = torch.zeros(4, 2, dtype=torch.int32), torch.ones(4, 2)
ROOM = room(8, 4, 16, torch.float32)
BAD = {
    "ids has dtype": lambda ops: ops.moe_sorting(*ROOM, IDS.long(), W, 4, 16),
    r"ids has shape \[8\]": lambda ops: ops.moe_sorting(*ROOM, IDS.view(-1), W, 4, 16),
    r"weights has shape \[4, 1\]": lambda ops: ops.moe_sorting(*ROOM, IDS, W[:, :1], 4, 16),
    "weights has dtype": lambda ops: ops.moe_sorting(*ROOM, IDS, W.double(), 4, 16),
    "block is 0": lambda ops: ops.moe_sorting(*ROOM, IDS, W, 4, 0),
    "experts is -1": lambda ops: ops.moe_sorting(*ROOM, IDS, W, -1, 16),
    r"sorted_ids has shape \[64\], expected a contiguous \[48\]": lambda ops: ops.moe_sorting(
        *ROOM, IDS, W, 3, 16
    ),
    "sorted_weights has dtype": lambda ops: ops.moe_sorting(*ROOM, IDS, W.half(), 4, 16),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
