"""Triton's kernels of a mixture of experts: in the interpreter, and compiled for cards."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import moe as ref
from optest.errors import UsageError
from optest.ops.moe import sorted_buffers
from optest.ops.triton import moe

DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def assert_sorted(ids, weights, experts, block):
    made = sorted_buffers(ids.numel(), experts, block, weights.dtype, "cpu")
    for each in made:
        each.fill_(77)
    moe.moe_sorting(*made, ids, weights, experts, block)
    for got, want in zip(made, ref.moe_sorting(ids, weights, experts, block), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("block", [1, 16])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mnk", [(1, 1, 1), (1, 8, 2), (17, 5, 3), (61, 32, 4)], ids=str)
def test_moe_sorting(mnk, dtype, block):
    m, n, k = mnk
    ids = torch.rand(m, n).topk(k).indices.int()
    assert_sorted(ids, torch.rand(m, k).to(dtype), n, block)


def test_more_pairs_than_one_step_takes_and_those_of_other_ranks():
    assert_sorted(torch.randint(-1, 4, (700, 2), dtype=torch.int32), torch.rand(700, 2), 3, 32)


@pytest.mark.parametrize(("shape", "experts"), [((0, 2), 4), ((3, 0), 4), ((2, 2), 0)])
def test_nothing_to_sort(shape, experts):
    assert_sorted(torch.zeros(shape, dtype=torch.int32), torch.ones(shape), experts, 16)


IDS, W = torch.zeros(4, 2, dtype=torch.int32), torch.ones(4, 2)
REFUSED = [
    (lambda room: moe.moe_sorting(*room, IDS.long(), W, 4, 16), "ids: torch.int64"),
    (lambda room: moe.moe_sorting(*room, IDS.view(-1), W, 4, 16), r"expected \[m, topk\]"),
    (lambda room: moe.moe_sorting(*room, IDS, W.double(), 4, 16), "weights: torch.float64"),
    (lambda room: moe.moe_sorting(*room, IDS, W[:, :1], 4, 16), r"weights: .*\(4, 1\)"),
    (lambda room: moe.moe_sorting(*room, IDS, W, 4, 0), "block=0"),
    (lambda room: moe.moe_sorting(*room, IDS, W, 3, 16), r"sorted_ids: .*\(48,\)"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(UsageError, match=words):
        call(sorted_buffers(8, 4, 16, torch.float32, "cpu"))


def kernels(_target):
    ints = dict.fromkeys(("counts", "sorted_ids", "block_experts", "ids"), "*i32:16")
    pointers = {**ints, "sorted_weights": "*fp32:16", "pairs": "i32", "size": "i32"}
    count = {**pointers, "capacity": "i32", "share": "i32"}
    yield "moe:count_kernel", count, {"BLOCK": 1024}
    place = {**pointers, "weights": "*fp32:16", "total": "*i32:16", "experts": "i32"}
    yield "moe:place_kernel", place, {"EXPERTS": 256, "BLOCK": 1024}


def test_lowers():
    assert_lowers(kernels)
