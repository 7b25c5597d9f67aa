"""Drawn tokens against the reference, at uniform numbers that lie inside a token's share."""

from __future__ import annotations

import itertools

import pytest
import torch

from aiter_ref import sampling as ref
from optest import native

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
LIMITS = list(itertools.product((0, 1, 20), (0.0, 0.7, 1.0), (0.0, 0.02)))


@pytest.fixture(scope="module")
def ops():
    return native.csrc("sampling")


def assert_drawn(ops, logits, top_k, top_p, min_p):
    """At the middle of the share of each token in turn, of those that have a share to speak of."""
    m = len(logits)
    limits = (
        torch.full((m,), top_k, dtype=torch.int32),
        torch.full((m,), float(top_p)),
        torch.full((m,), float(min_p)),
    )
    p = ref.kept_probabilities(logits, *limits)
    for token in torch.multinomial((p > 1e-5) * p, 5, replacement=True).T[..., None]:
        uniform = (p.cumsum(-1).gather(1, token) - p.gather(1, token) / 2)[:, 0].float()
        tokens = torch.full((m,), -7, dtype=torch.int32)
        ops.sampling(tokens, logits, *limits, uniform)
        assert tokens.tolist() == token[:, 0].tolist()


@pytest.mark.parametrize(("top_k", "top_p", "min_p"), LIMITS)
@pytest.mark.parametrize("n", [1, 17, 300, 5000])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sampling(ops, dtype, n, top_k, top_p, min_p, lay_out):
    logits = lay_out((torch.randn(6, n) * 3).to(dtype), "strided")
    assert_drawn(ops, logits, top_k, top_p, min_p)


@pytest.mark.parametrize("top_p", [0.5, 0.999])
def test_a_flat_distribution_takes_more_than_the_first_look(ops, top_p):
    """Of thousands of equals half are kept: the lower ones, to the very border."""
    assert_drawn(ops, torch.zeros(2, 4000), 0, top_p + 1 / 8000, 0.0)


# Sums of 1024 tokens are brought to one scale; where 1/4096 weighs too much, less is looked at.
ORDERS = {
    "rising": lambda: torch.arange(9000.0).repeat(2, 1) / 1500,
    "falling": lambda: -torch.arange(9000.0).repeat(2, 1) / 1500,
    "late": lambda: torch.cat([torch.randn(2, 8000), torch.randn(2, 1001) + 9], -1),
    "far below one": lambda: torch.randn(2, 9000).index_fill_(1, torch.tensor([77]), 10.0),
    "masked at first": lambda: torch.cat(
        [torch.full((2, 3000), -torch.inf), torch.randn(2, 99)], -1
    ),
    "large": lambda: torch.randn(2, 9000) * 3 + 5000,
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("top_p", "min_p"),
    [(1.0, 0.0), (0.6, 0.0), (0.999, 0.0), (0.99999, 0.0), (1.0, 0.5), (0.9, 0.1)],
)
def test_where_the_likely_tokens_stand(ops, order, top_p, min_p):
    assert_drawn(ops, ORDERS[order](), 0, top_p, min_p)
    assert_drawn(ops, ORDERS[order](), 500, top_p, min_p)


@pytest.mark.parametrize("top_p", [0.5, 0.999, 1.0])
@pytest.mark.parametrize("step", [-30.0, 5.0, 12.0, 100.0, torch.inf])
def test_a_row_that_rises_or_falls_by_steps(ops, step, top_p):
    """Weights against a smaller logit overflow; those of the first runs may vanish, or be all."""
    level = torch.arange(5000) // 1000 * step if step < torch.inf else torch.full((5000,), -step)
    logits = torch.randn(4, 5000) + level
    logits[:, -900:] = logits[:, -900:].nan_to_num(neginf=1.0)
    assert_drawn(ops, logits, 0, top_p, 0.0)


def test_only_equals_of_the_best_are_left_by_a_min_p_of_one(ops):
    logits = torch.randn(1, 3000) - 10
    logits[0, [5, 2000]] = 3.3
    limits = torch.zeros(1).int(), torch.ones(1), torch.ones(1)
    for uniform, want in ((0.0, 5), (0.49, 5), (0.51, 2000), (0.9999, 2000)):
        tokens = torch.zeros(1, dtype=torch.int32)
        ops.sampling(tokens, logits, *limits, torch.tensor([uniform]))
        assert tokens.item() == want


def test_masked_tokens_are_never_drawn(ops):
    logits = torch.full((1, 40), -torch.inf)
    logits[0, 30], logits[0, 35] = 2.0, 2.0
    zero, one = torch.zeros(1), torch.ones(1)
    for top_p in (one, one * 0.9):
        for uniform, want in ((0.0, 30), (0.4, 30), (0.6, 35), (0.99999, 35)):
            tokens = torch.zeros(1, dtype=torch.int32)
            ops.sampling(tokens, logits, zero.int(), top_p, zero, torch.tensor([uniform]))
            assert tokens.item() == want


def test_each_row_has_its_own_limits(ops):
    logits = torch.log(torch.tensor([[0.1, 0.2, 0.3, 0.4]])).repeat(4, 1)
    top_k = torch.tensor([0, 2, 0, 0], dtype=torch.int32)
    top_p = torch.tensor([1.0, 1.0, 0.35, 1.0])
    min_p = torch.tensor([0.0, 0.0, 0.0, 0.7])
    tokens = torch.empty(4, dtype=torch.int32)
    ops.sampling(tokens, logits, top_k, top_p, min_p, torch.zeros(4))
    assert tokens.tolist() == [0, 2, 3, 2]


def test_empty(ops):
    for m, n in ((0, 5), (3, 0)):
        tokens, ones = torch.full((m,), 5, dtype=torch.int32), torch.ones(m)
        ops.sampling(tokens, torch.zeros(m, n), ones.int(), ones, ones, ones)
        assert (tokens == -1).all()


X, T, ONE = torch.zeros(2, 6), torch.zeros(2, dtype=torch.int32), torch.ones(2)
BAD = {
    "logits has dtype": lambda ops: ops.sampling(T, X.double(), T, ONE, ONE, ONE),
    r"logits has shape \[6\]": lambda ops: ops.sampling(T, X[0], T, ONE, ONE, ONE),
    "tokens has dtype": lambda ops: ops.sampling(ONE, X, T, ONE, ONE, ONE),
    "top_k has dtype": lambda ops: ops.sampling(T, X, ONE, ONE, ONE, ONE),
    r"top_p has shape \[1\]": lambda ops: ops.sampling(T, X, T, ONE[:1], ONE, ONE),
    "min_p has dtype": lambda ops: ops.sampling(T, X, T, ONE, ONE.double(), ONE),
    r"uniform has shape \[2, 1\]": lambda ops: ops.sampling(T, X, T, ONE, ONE, ONE[:, None]),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
