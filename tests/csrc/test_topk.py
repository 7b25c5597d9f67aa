"""The k largest of each row: the very set that a stable sort takes."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import topk as ref
from optest import native

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@pytest.fixture(scope="module")
def ops():
    return native.csrc("topk")


def assert_topk(ops, scores, lengths, k):
    lengths = torch.tensor(lengths, dtype=torch.int32)
    ids = torch.full((len(scores), k), -7, dtype=torch.int32)
    ops.topk_per_row(ids, scores, lengths)
    want = ref.topk_per_row(scores, lengths, k)
    assert torch.equal(ids.sort(-1).values, want.sort(-1).values)
    filled = (ids < 0).int()
    assert (filled.diff(dim=1) >= 0).all(), "-1 stands before a column"


@pytest.mark.parametrize("k", [1, 7, 64, 300])
@pytest.mark.parametrize("n", [1, 15, 64, 127, 129, 4099])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_topk_per_row(ops, dtype, n, k, lay_out):
    scores = lay_out(torch.randn(6, n).to(dtype), "strided")
    assert_topk(ops, scores, [n, 0, 1, n // 2, n - 1, min(k, n)], k)


@pytest.mark.parametrize("order", ["ascending", "descending", "equal", "two values"])
def test_orders_that_keep_much_or_nothing(ops, order):
    """Ascending scores are all kept for a while, over and over; of equal ones the first stay."""
    scores = {
        "ascending": torch.arange(5000.0),
        "descending": -torch.arange(5000.0),
        "equal": torch.zeros(5000),
        "two values": torch.arange(5000.0) % 2,
    }[order]
    assert_topk(ops, scores.repeat(2, 1), [5000, 4321], 100)


# Of 16 steps of 64 (or 16) scores one is looked at for the first threshold.
N, K = 9001, 500


@pytest.mark.parametrize("largest", ["seen", "unseen", "few", "equal", "zeros", "rising"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_sample_that_misleads(ops, dtype, largest):
    """A first threshold under which too few or too many are, or that is the k-th score itself."""
    at = torch.arange(N)
    scores = {
        "seen": torch.randn(N) + 100.0 * (at % 1024 < 64),
        "unseen": torch.randn(N) + 100.0 * (at % 1024 >= 64),
        "few": (at % 1024 < 16) * torch.rand(N),
        "equal": (at % 18 == 0).float(),
        "zeros": torch.where(at % 9 == 0, (at % 5 - 2.0) * 0.0, -1.0 - torch.rand(N)),
        "rising": at / 64,
    }[largest].to(dtype)
    assert_topk(ops, scores.repeat(2, 1), [N, N - 5], K)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_unlike_the_ones_before(ops, dtype):
    """What is above the threshold of one row may be too little of the next, or all of it."""
    kinds = torch.tensor([0, 0, 4, 0, 1, 1, 2, 2, 0, 3, 3, 0] + [0, 4] * 10 + [1, 0, 2])
    shifts, widths = torch.tensor([0, -9, 9, 0, -0.3]), torch.tensor([1, 1, 0.1, 0, 1])
    scores = torch.randn(len(kinds), N) * widths[kinds, None] + shifts[kinds, None]
    lengths = [N] * len(kinds)
    lengths[-2] = N // 2
    assert_topk(ops, scores.to(dtype), lengths, K)


def test_scores_that_are_far_apart(ops):
    """Most of those kept lie in one of the parts that the choice among them counts by."""
    scores = torch.randn(3, N) * 1e-3
    scores[0, 7], scores[1, 70], scores[2, 700] = torch.inf, torch.nan, 1e30
    scores[:, 3000] = -torch.inf
    assert_topk(ops, scores, [N] * 3, K)


def test_signs_infinities_zeros_and_nan(ops):
    nan, inf = torch.nan, torch.inf
    row = torch.tensor([0.0, -0.0, nan, -inf, 1.0, inf, -1.0, -nan, -0.0, 0.0])
    for k in range(1, 10):
        assert_topk(ops, row[None], [10], k)


def test_what_lies_behind_a_row_is_not_looked_at(ops):
    scores = torch.full((3, 200), torch.inf)
    scores[:, :100] = torch.randn(3, 100)
    assert_topk(ops, scores, [100, 77, 65], 10)


def test_rows_over_all_threads(ops):
    scores = torch.randn(400, 3000)
    assert_topk(ops, scores, torch.randint(0, 3001, (400,)).tolist(), 50)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 7), (3, 0, 5), (3, 5, 0)])
def test_empty(ops, m, n, k):
    assert_topk(ops, torch.zeros(m, n), [n] * m, k)


S, L = torch.zeros(2, 6), torch.tensor([6, 2], dtype=torch.int32)
IDS = torch.zeros(2, 3, dtype=torch.int32)
BAD = {
    "scores has dtype": lambda ops: ops.topk_per_row(IDS, S.double(), L),
    r"scores has shape \[6\]": lambda ops: ops.topk_per_row(IDS, S[0], L),
    "scores has stride 2": lambda ops: ops.topk_per_row(IDS, torch.zeros(2, 12)[:, ::2], L),
    "ids has dtype": lambda ops: ops.topk_per_row(IDS.long(), S, L),
    r"ids has shape \[1, 3\]": lambda ops: ops.topk_per_row(IDS[:1], S, L),
    "lengths has dtype": lambda ops: ops.topk_per_row(IDS, S, L.long()),
    r"lengths\[1\] is 7, expected 0 to 6": lambda ops: ops.topk_per_row(
        IDS, S, torch.tensor([6, 7], dtype=torch.int32)
    ),
    r"lengths\[0\] is -1": lambda ops: ops.topk_per_row(IDS, S, L - 7),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
