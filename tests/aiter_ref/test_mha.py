"""Attention of many queries against fp64, query by query, and against hand values."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from aiter_ref import mha as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations

RTOL = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5}
MASKS = [(True, 0), (False, 0), (True, 1), (True, 4), (True, 99)]
# More queries than keys, as many, fewer; none of either.
QUERIES, KEYS = [5, 6, 3, 0, 2], [3, 6, 11, 4, 0]


def starts(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def query_by_query(q, k, v, cu_q, cu_k, causal, window, scale):
    """The keys that one query of one head sees, found one after the other."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    bounds = zip(pairwise(cu_q.tolist()), pairwise(cu_k.tolist()), strict=True)
    for (q_begin, q_end), (k_begin, k_end) in bounds:
        for query in range(q_begin, q_end):
            place = k_end - (q_end - query)
            seen = [
                key
                for key in range(k_begin, k_end)
                if not (causal and key > place) and not (window and key <= place - window)
            ]
            for head in range(q.shape[1] if seen else 0):
                shared = head * k.shape[1] // q.shape[1]
                scores = k[seen, shared].double() @ q[query, head].double() * scale
                out[query, head] = scores.softmax(0) @ v[seen, shared].double()
    return out


def operands(dtype=torch.float32):
    k, v = torch.randn(2, sum(KEYS), 2, 24).to(dtype)
    return torch.randn(sum(QUERIES), 6, 24).to(dtype), k, v, starts(QUERIES), starts(KEYS)


@pytest.mark.parametrize(("causal", "window"), MASKS)
@pytest.mark.parametrize("dtype", RTOL)
def test_against_fp64(dtype, causal, window):
    """Another sequence's keys, a diagonal that begins at the first key, a window one off."""
    inputs = operands(dtype)
    got = ref.mha(*inputs, causal=causal, window=window, scale=0.3)
    assert got.dtype is dtype
    want = query_by_query(*inputs, causal, window, 0.3)
    torch.testing.assert_close(got.double(), want, rtol=RTOL[dtype], atol=1e-6)


def test_by_hand():
    """The last query sees both values in halves, the first its own alone."""
    q, k, v = torch.ones(2, 1, 1), torch.ones(2, 1, 1), torch.tensor([4.0, 8.0]).view(2, 1, 1)
    at = torch.tensor([0, 2])
    got = ref.mha(q, k, v, at, at, causal=True, window=0, scale=1.0)
    assert got.flatten().tolist() == [4.0, 6.0]


@pytest.mark.parametrize(("causal", "window"), MASKS)
def test_cost_counts_what_is_seen(causal, window):
    """A square instead of the triangle, a window that begins before the first key."""
    lengths = list(zip(QUERIES, KEYS, strict=True))
    cost = ref.mha_cost(6, 2, 24, lengths, causal=causal, window=window, itemsize=2)
    seen = [ref.seen_keys(*each, causal=causal, window=window) for each in lengths]
    assert cost.flops == 6 * (4 * 24 + 6) * sum(int(each.sum()) for each in seen)
    keys = sum(int(each.any(0).sum()) for each in seen)
    starts_bytes = 2 * 6 * 4
    assert cost.nbytes == 2 * 2 * 24 * (sum(QUERIES) * 6 + keys * 2) + starts_bytes


def test_cost_against_an_instrumented_count():
    """An operation of the softmax that is forgotten."""
    q, k, v = torch.randn(5, 4, 16), *torch.randn(2, 9, 2, 16)
    cost = ref.mha_cost(4, 2, 16, [(5, 9)], causal=False, window=0, itemsize=4)
    assert operations(lambda: ref._attend(q, k, v, None, 0.25)) == cost.flops
