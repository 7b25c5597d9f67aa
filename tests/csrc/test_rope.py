"""Rotary position embedding against fp64."""

from __future__ import annotations

import pytest
import torch

from optest import native

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# head_size, rotary_dim: the smallest, tails of vectors, parts, whole heads.
HEADS = ((1, 0), (2, 2), (80, 20), (67, 66), (96, 48), (128, 128), (256, 64))
EPS = 1e-6


@pytest.fixture(scope="module")
def ops():
    return native.csrc("rope")


def table(positions, rotary_dim, dtype=torch.float32):
    angles = torch.rand(positions, rotary_dim // 2) * 6.3
    return torch.cat((angles.cos(), angles.sin()), -1).to(dtype)


def turned(x, positions, cos_sin, is_neox):
    want, rotary = x.double().clone(), cos_sin.shape[1]
    cos, sin = cos_sin.double()[positions][:, None].chunk(2, -1)
    half = rotary // 2
    if is_neox:
        first, second = want[..., :half], want[..., half:rotary]
    else:
        first, second = want[..., 0:rotary:2], want[..., 1:rotary:2]
    a, b = first.clone(), second.clone()
    first.copy_(a * cos - b * sin)
    second.copy_(b * cos + a * sin)
    return want


def normed(x, weight):
    wide = x.double()
    return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS) * weight.double()


def assert_rounded(got, want, atol=2e-6):
    """Within what one rounding to the dtype, after fp32 arithmetic, may change."""
    rtol = 1e-5 + (0 if got.dtype == torch.float32 else 0.51 * torch.finfo(got.dtype).eps)
    torch.testing.assert_close(got.double(), want, rtol=rtol, atol=atol, equal_nan=True)


def operands(tokens, heads, kv_heads, size, dtype):
    """Queries and keys as views of one projection, whose values must stay as they are."""
    qkv = torch.randn(tokens, heads + 2 * kv_heads, size).to(dtype)
    return qkv, *qkv[:, : heads + kv_heads].split((heads, kv_heads), 1)


@pytest.mark.parametrize("is_neox", [True, False], ids=["neox", "gptj"])
@pytest.mark.parametrize("head", HEADS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rope(ops, dtype, head, is_neox):
    """Tails, the pairing, the sine's sign, strides between heads, a rest that must not change."""
    size, rotary = head
    qkv, q, k = operands(7, 5, 2, size, dtype)
    before, positions, cos_sin = qkv.clone(), torch.randint(0, 30, (7,)), table(30, rotary)
    want_q, want_k = (turned(x, positions, cos_sin, is_neox) for x in (q, k))
    ops.rope(q, k, positions, cos_sin, is_neox)
    assert_rounded(q, want_q)
    assert_rounded(k, want_k)
    assert torch.equal(q[..., rotary:], before[:, :5, rotary:])
    assert torch.equal(qkv[:, 7:], before[:, 7:])


@pytest.mark.parametrize("is_neox", [True, False], ids=["neox", "gptj"])
@pytest.mark.parametrize("head", HEADS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_norm_and_rope(ops, dtype, head, is_neox):
    """A norm of the turning part alone, the weight of keys for queries, a rest left as it was."""
    size, rotary = head
    qkv, q, k = operands(7, 5, 2, size, dtype)
    before, positions, cos_sin = qkv.clone(), torch.randint(0, 30, (7,)), table(30, rotary)
    weights = torch.randn(2, size).to(dtype)
    want_q, want_k = (
        turned(normed(x, w), positions, cos_sin, is_neox)
        for x, w in zip((q, k), weights, strict=True)
    )
    ops.fused_qk_norm_rope(q, k, *weights, positions, cos_sin, EPS, is_neox)
    assert_rounded(q, want_q, atol=4e-6)
    assert_rounded(k, want_k, atol=4e-6)
    assert torch.equal(qkv[:, 7:], before[:, 7:])


@pytest.mark.parametrize("is_neox", [True, False], ids=["neox", "gptj"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_cache_of_another_dtype(ops, dtype, is_neox):
    _, q, k = operands(3, 2, 1, 80, torch.bfloat16)
    positions, cos_sin = torch.tensor([2, 0, 2]), table(3, 44, dtype)
    want = turned(q, positions, cos_sin, is_neox)
    ops.rope(q, k, positions, cos_sin, is_neox)
    assert_rounded(q, want)


def test_many_tokens_are_shared_between_threads(ops):
    """Each has its own position, whichever thread takes it."""
    _, q, k = operands(900, 8, 2, 128, torch.bfloat16)
    positions, cos_sin = torch.randperm(900), table(900, 128)
    want_q, want_k = (turned(x, positions, cos_sin, is_neox=True) for x in (q, k))
    ops.rope(q, k, positions, cos_sin, True)
    assert_rounded(q, want_q)
    assert_rounded(k, want_k)


@pytest.mark.parametrize("shape", [(0, 4, 2), (3, 0, 2), (3, 4, 0)], ids=str)
def test_empty(ops, shape):
    _, q, k = operands(*shape, 16, torch.float32)
    positions, cos_sin = torch.zeros(shape[0], dtype=torch.int64), table(1, 16)
    want = turned(q, positions, cos_sin, is_neox=True)
    ops.rope(q, k, positions, cos_sin, True)
    assert_rounded(q, want)


Q, K = torch.zeros(3, 4, 16), torch.zeros(3, 2, 16)
AT, TABLE = torch.tensor([0, 4, 1]), torch.zeros(5, 16)
BAD = {
    "q has dtype": lambda ops: ops.rope(Q.double(), K.double(), AT, TABLE, True),
    r"q has shape \[3, 64\]": lambda ops: ops.rope(Q.flatten(1), K, AT, TABLE, True),
    "q has stride 4": lambda ops: ops.rope(
        torch.zeros(3, 16, 4).transpose(1, 2), K, AT, TABLE, True
    ),
    "k has dtype": lambda ops: ops.rope(Q, K.half(), AT, TABLE, True),
    r"k has shape \[3, 2, 8\]": lambda ops: ops.rope(Q, K[..., :8], AT, TABLE, True),
    r"k has shape \[2, 2, 16\]": lambda ops: ops.rope(Q, K[:2], AT, TABLE, True),
    "positions has dtype": lambda ops: ops.rope(Q, K, AT.int(), TABLE, True),
    r"positions has shape \[2\]": lambda ops: ops.rope(Q, K, AT[:2], TABLE, True),
    r"positions\[1\] is 4, expected one of the 4": lambda ops: ops.rope(Q, K, AT, TABLE[:4], True),
    r"positions\[1\] is -4": lambda ops: ops.rope(Q, K, -AT, TABLE, True),
    "expected an even rotary_dim of 16 at most": lambda ops: ops.rope(
        Q, K, AT, torch.zeros(5, 15), True
    ),
    r"cos_sin has shape \[5, 18\]": lambda ops: ops.rope(Q, K, AT, torch.zeros(5, 18), True),
    r"q_weight has shape \[15\]": lambda ops: ops.fused_qk_norm_rope(
        Q, K, TABLE[0, 1:], TABLE[0], AT, TABLE, EPS, True
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
