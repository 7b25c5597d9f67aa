"""Triton's k largest of each row: in the interpreter, and compiled for cards."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import topk as ref
from optest.errors import UsageError
from optest.ops.triton import topk

DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def assert_topk(scores, lengths, k):
    lengths = torch.tensor(lengths, dtype=torch.int32)
    ids = torch.full((len(scores), k), -7, dtype=torch.int32)
    topk.topk_per_row(ids, scores, lengths)
    want = ref.topk_per_row(scores, lengths, k)
    assert torch.equal(ids.sort(-1).values, want.sort(-1).values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nk", [(1, 1), (300, 64), (2500, 70), (5, 9)], ids=str)
def test_topk_per_row(nk, dtype):
    n, k = nk
    scores = torch.randn(4, n + 3).to(dtype)[:, :n]
    assert_topk(scores, [n, 0, n // 2, n - 1], k)


def test_signs_infinities_zeros_and_nan():
    nan, inf = torch.nan, torch.inf
    row = torch.tensor([0.0, -0.0, nan, -inf, 1.0, inf, -1.0, -nan, -0.0, 0.0])
    for k in range(1, 10):
        assert_topk(row[None], [10], k)


def test_keys_that_differ_in_their_last_byte_alone():
    row = (torch.arange(500, dtype=torch.int32) * 7 % 251 + 0x3F800000).view(torch.float32)
    assert_topk(row[None], [499], 60)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 7), (3, 0, 5), (3, 5, 0)])
def test_empty(m, n, k):
    assert_topk(torch.zeros(m, n), [n] * m, k)


S, L = torch.zeros(2, 6), torch.tensor([6, 2], dtype=torch.int32)
IDS = torch.zeros(2, 3, dtype=torch.int32)
REFUSED = [
    (lambda: topk.topk_per_row(IDS, S.double(), L), "scores: torch.float64"),
    (lambda: topk.topk_per_row(IDS, torch.zeros(2, 12)[:, ::2], L), "side by side"),
    (lambda: topk.topk_per_row(IDS, S, L.long()), "lengths: torch.int64"),
    (lambda: topk.topk_per_row(IDS[:1], S, L), r"expected contiguous int32 \(2, k\)"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(UsageError, match=words):
        call()


def kernels(_target):
    operands = {"ids": "*i32:16", "lengths": "*i32:16", "k": "i32", "score_row": "i32"}
    for dtype in ("*fp32:16", "*bf16:16"):
        yield "topk:topk_per_row_kernel", {**operands, "scores": dtype}, {"BLOCK": 2048}


def test_lowers():
    assert_lowers(kernels)
