"""Routing kernels against fp64."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import routing as ref
from optest import native

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# e^x of a difference below 16, which fp32 rounds at 2^-20, and some steps of 2^-24.
CLOSE = {"rtol": 2**-19, "atol": 1e-30}
# Fewer than a vector, whole vectors, a tail; all of them taken.
SHAPES = [
    (1, 1, 1),
    (4, 7, 7),
    (3, 16, 2),
    (5, 127, 8),
    (300, 128, 8),
    (2, 129, 129),
    (3, 1000, 33),
]
GROUPS = [(1, 1, 1, 1), (6, 6, 2, 2), (64, 8, 3, 6), (21, 3, 3, 5), (256, 8, 4, 8), (40, 20, 7, 14)]


@pytest.fixture(scope="module")
def ops():
    return native.csrc("routing")


def room(m, k):
    return torch.full((m, k), torch.nan), torch.full((m, k), -7, dtype=torch.int32)


@pytest.mark.parametrize("mnk", SHAPES, ids=str)
@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_topk_softmax(ops, dtype, renormalize, mnk, lay_out):
    m, n, k = mnk
    gating = lay_out(torch.randn(m, n).to(dtype), "strided")
    weights, ids = room(m, k)
    ops.topk_softmax(weights, ids, gating, renormalize)
    want, want_ids = ref.topk_softmax(gating, k, renormalize=renormalize)
    assert torch.equal(ids, want_ids)
    torch.testing.assert_close(weights, want, **CLOSE)


@pytest.mark.parametrize(("n", "groups", "kept", "k"), GROUPS)
@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_grouped_topk(ops, dtype, renormalize, n, groups, kept, k, lay_out):
    gating, bias = lay_out(torch.randn(20, n).to(dtype), "strided"), torch.rand(n) * 0.3
    weights, ids = room(20, k)
    ops.grouped_topk(weights, ids, gating, bias, groups, kept, renormalize, 2.5)
    want = ref.grouped_topk(gating, bias, k, groups, kept, renormalize=renormalize, scale=2.5)
    torch.testing.assert_close(ref.routed(weights, ids, n), ref.routed(*want, n), **CLOSE)


def test_equal_scores_go_to_the_lower_expert_and_zeros_are_equal(ops):
    gating = torch.zeros(1, 40)
    gating[0, ::2] = -0.0
    gating[0, 37] = 1.0
    weights, ids = room(1, 5)
    ops.topk_softmax(weights, ids, gating, True)
    assert ids.tolist() == [[37, 0, 1, 2, 3]]
    ops.grouped_topk(weights, ids, torch.zeros(1, 40), torch.zeros(40), 4, 2, True, 1.0)
    assert ids.tolist() == [[0, 1, 2, 3, 4]]


def test_a_negative_bias_leaves_experts_of_dropped_groups_out(ops):
    """Where all sums are negative, a zero in the place of a dropped expert would win."""
    weights, ids = room(1, 4)
    ops.grouped_topk(weights, ids, torch.zeros(1, 8), torch.linspace(-3, -2, 8), 4, 2, False, 1.0)
    assert ids.tolist() == [[7, 6, 5, 4]]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nan_is_above_all_and_every_id_is_still_an_expert(ops, sign):
    gating = torch.tensor([[-torch.inf, 3.0, torch.nan, torch.inf]]).copysign(
        torch.tensor([-1.0, 1.0, sign, 1.0])
    )
    weights, ids = room(1, 4)
    ops.topk_softmax(weights, ids, gating, False)
    assert ids.tolist() == [[2, 3, 1, 0]]
    assert weights.isnan().all()
    ops.topk_softmax(weights, ids, torch.full((1, 4), -torch.inf), True)
    assert ids.tolist() == [[0, 1, 2, 3]]


def test_empty(ops):
    ops.topk_softmax(*room(0, 2), torch.zeros(0, 4), True)
    ops.topk_softmax(*room(3, 0), torch.zeros(3, 0), True)
    ops.grouped_topk(*room(3, 0), torch.zeros(3, 0), torch.zeros(0), 8, 4, True, 1.0)


G, B = torch.zeros(2, 6), torch.zeros(6)
BAD = {
    "gating has dtype": lambda ops: ops.topk_softmax(*room(2, 2), G.double(), True),
    r"gating has shape \[6\]": lambda ops: ops.topk_softmax(*room(2, 2), G[0], True),
    "k at most 6": lambda ops: ops.topk_softmax(*room(2, 7), G, True),
    r"ids has shape \[2, 1\]": lambda ops: ops.topk_softmax(room(2, 2)[0], room(2, 1)[1], G, True),
    "ids has dtype": lambda ops: ops.topk_softmax(room(2, 2)[0], room(2, 2)[0], G, True),
    "weights has strides": lambda ops: ops.topk_softmax(
        room(2, 4)[0][:, ::2], room(2, 2)[1], G, True
    ),
    "expected a divisor of 6": lambda ops: ops.grouped_topk(*room(2, 2), G, B, 4, 2, True, 1.0),
    "expected 1 to 3": lambda ops: ops.grouped_topk(*room(2, 2), G, B, 3, 4, True, 1.0),
    "expected at most 4": lambda ops: ops.grouped_topk(*room(2, 5), G, B, 3, 2, True, 1.0),
    r"bias has shape \[5\]": lambda ops: ops.grouped_topk(*room(2, 2), G, B[:5], 3, 2, True, 1.0),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
