"""Triton's sampling: in the interpreter, and compiled for cards."""

from __future__ import annotations

import itertools

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import sampling as ref
from optest.errors import UsageError
from optest.ops.triton import sampling

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
LIMITS = list(itertools.product((0, 1, 20), (0.0, 0.7, 1.0), (0.0, 0.02)))


def assert_drawn(logits, top_k, top_p, min_p):
    """At the middle of the share of a token that has one to speak of."""
    m = len(logits)
    limits = (
        torch.full((m,), top_k, dtype=torch.int32),
        torch.full((m,), float(top_p)),
        torch.full((m,), float(min_p)),
    )
    p = ref.kept_probabilities(logits, *limits)
    token = torch.multinomial((p > 1e-4) * p, 1)
    uniform = (p.cumsum(-1).gather(1, token) - p.gather(1, token) / 2)[:, 0].float()
    tokens = torch.full((m,), -7, dtype=torch.int32)
    sampling.sampling(tokens, logits, *limits, uniform)
    assert tokens.tolist() == token[:, 0].tolist()


@pytest.mark.parametrize(("top_k", "top_p", "min_p"), LIMITS)
def test_limits(top_k, top_p, min_p):
    assert_drawn((torch.randn(2, 303) * 3)[:, :300], top_k, top_p, min_p)


@pytest.mark.parametrize("n", [1, 129])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, n):
    assert_drawn((torch.randn(1, n) * 3).to(dtype), 20, 0.7, 0.02)


@pytest.mark.parametrize("top_k", [0, 1300])
def test_more_than_one_block_of_equals(top_k):
    assert_drawn(torch.zeros(1, 2500), top_k, 0.5 + 1 / 5000, 0.0)


def test_masked_tokens_are_never_drawn():
    logits = torch.full((1, 40), -torch.inf)
    logits[0, 30], logits[0, 35] = 2.0, 2.0
    zero, tokens = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    for top_p, (uniform, want) in itertools.product(
        (1.0, 0.9), ((0.0, 30), (0.4, 30), (0.6, 35), (0.99999, 35))
    ):
        limits = (zero.int(), torch.tensor([top_p]), zero, torch.tensor([uniform]))
        sampling.sampling(tokens, logits, *limits)
        assert tokens.item() == want


def test_empty():
    for m, n in ((0, 5), (3, 0)):
        tokens, ones = torch.full((m,), 5, dtype=torch.int32), torch.ones(m)
        sampling.sampling(tokens, torch.zeros(m, n), ones.int(), ones, ones, ones)
        assert (tokens == -1).all()


X, T, ONE = torch.zeros(2, 6), torch.zeros(2, dtype=torch.int32), torch.ones(2)
REFUSED = [
    (lambda: sampling.sampling(T, X.double(), T, ONE, ONE, ONE), "logits: torch.float64"),
    (lambda: sampling.sampling(T, torch.zeros(6, 2).t(), T, ONE, ONE, ONE), "side by side"),
    (lambda: sampling.sampling(T, X, ONE, ONE, ONE, ONE), "top_k: torch.float32"),
    (lambda: sampling.sampling(T, X, T, ONE, ONE, ONE[:1]), r"uniform: .*\(1,\)"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(UsageError, match=words):
        call()


def kernels(_target):
    of_rows = dict.fromkeys(("top_p", "min_p", "uniform"), "*fp32:16")
    ints = {"tokens": "*i32:16", "top_k": "*i32:16", "n": "i32", "logit_row": "i32"}
    yield "sampling:sampling_kernel", {**of_rows, **ints, "logits": "*fp32:16"}, {"BLOCK": 2048}


def test_lowers():
    assert_lowers(kernels)
