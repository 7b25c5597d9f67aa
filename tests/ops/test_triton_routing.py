"""Triton's routing kernels: in the interpreter against the references, and compiled for cards."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import routing as ref
from optest.errors import UsageError
from optest.ops.triton import routing

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
# e^x of a difference below 16, which fp32 rounds at 2^-20; see op_tests/test_topk_softmax.py.
CLOSE = {"rtol": 2**-18, "atol": 1e-30}


def buffers(m, k):
    return torch.full((m, k), torch.nan), torch.full((m, k), -7, dtype=torch.int32)


def gating_of(m, n, dtype):
    """Random rows that are not side by side in memory; bf16 has ties among many."""
    return torch.randn(m, n + 3).to(dtype)[:, :n]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("mnk", [(1, 1, 1), (3, 7, 7), (2, 129, 3), (5, 128, 8)], ids=str)
def test_topk_softmax(mnk, renormalize, dtype):
    m, n, k = mnk
    gating, (weights, ids) = gating_of(m, n, dtype), buffers(m, k)
    want, want_ids = ref.topk_softmax(gating, k, renormalize=renormalize)
    routing.topk_softmax(weights, ids, gating, renormalize)
    assert torch.equal(ids, want_ids)
    torch.testing.assert_close(weights, want, **CLOSE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "groups", "kept", "k"),
    [(1, 1, 1, 1, 1), (3, 6, 6, 2, 2), (4, 64, 8, 3, 6), (2, 21, 3, 3, 5), (3, 256, 8, 4, 8)],
)
def test_grouped_topk(m, n, groups, kept, k, renormalize, dtype):
    gating, bias = gating_of(m, n, dtype), torch.rand(n) * 0.3
    weights, ids = buffers(m, k)
    want, want_ids = ref.grouped_topk(
        gating, bias, k, groups, kept, renormalize=renormalize, scale=2.5
    )
    routing.grouped_topk(weights, ids, gating, bias, groups, kept, renormalize, 2.5)
    torch.testing.assert_close(ref.routed(weights, ids, n), ref.routed(want, want_ids, n), **CLOSE)


def test_a_nan_comes_first_and_an_infinity_last():
    gating = torch.tensor([[1.0, -torch.inf, torch.nan, 2.0]])
    weights, ids = buffers(1, 4)
    routing.topk_softmax(weights, ids, gating, False)
    assert ids.tolist() == [[2, 3, 0, 1]]
    assert weights.isnan().all()


def test_nothing_to_route():
    routing.topk_softmax(*buffers(0, 2), torch.zeros(0, 4), True)
    routing.topk_softmax(*buffers(3, 0), torch.zeros(3, 4), True)


G = torch.zeros(2, 6)
REFUSED = [
    (lambda: routing.topk_softmax(*buffers(2, 7), G, True), "k at most 6"),
    (lambda: routing.topk_softmax(buffers(2, 2)[0], torch.zeros(2, 2), G, True), "torch.int32"),
    (lambda: routing.topk_softmax(*buffers(2, 2), G.t().contiguous().t(), True), "side by side"),
    (lambda: routing.grouped_topk(*buffers(2, 2), G, G[0], 4, 2, True, 1.0), "divisor of 6"),
    (lambda: routing.grouped_topk(*buffers(2, 2), G, G[0], 3, 4, True, 1.0), "1 to groups=3"),
    (lambda: routing.grouped_topk(*buffers(2, 5), G, G[0], 3, 2, True, 1.0), "at most 4"),
    (lambda: routing.grouped_topk(*buffers(2, 2), G, G[0, :5], 3, 2, True, 1.0), r"\(6,\)"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(UsageError, match=words):
        call()


def kernels(_target):
    pairs = {"weights": "*fp32:16", "ids": "*i32:16", "gating": "*bf16:16", "gating_row": "i32"}
    chosen = {"K": 8, "K_BLOCK": 8, "RENORMALIZE": True}
    yield "routing:topk_softmax_kernel", {**pairs, "n": "i32"}, {**chosen, "BLOCK": 128}
    grouped = {**pairs, "bias": "*fp32:16", "size": "i32", "scale": "fp32"}
    of_groups = {"GROUPS": 8, "KEPT": 4, "GROUP_BLOCK": 8, "BLOCK": 32}
    yield "routing:grouped_topk_kernel", grouped, {**chosen, **of_groups}


def test_lowers():
    assert_lowers(kernels)
