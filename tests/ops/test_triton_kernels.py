"""Triton's norm, activation, cache write and GEMM in the interpreter, against the references."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import activation as ref_activation
from aiter_ref import cache as ref_cache
from aiter_ref import gemm as ref_gemm
from aiter_ref import norm as ref_norm
from optest.errors import UsageError
from optest.ops.triton import activation, cache, gemm, norm

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
# One step of the output: a sum in another order may round the other way.
RTOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}
ROWS = [(1, 1), (3, 7), (2, 127), (2, 129), (1, 4099)]


def rows(shape, dtype):
    """Random rows that are not side by side in memory."""
    m, n = shape
    return torch.randn(m, n + 3).to(dtype)[:, :n]


def close(got, want, atol=1e-6):
    torch.testing.assert_close(got, want, rtol=RTOL[want.dtype], atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_rmsnorm(shape, dtype):
    x, weight = rows(shape, dtype), torch.randn(shape[1]).to(dtype)
    out = rows(shape, dtype)
    norm.rmsnorm(out, x, weight, 1e-5)
    close(out, ref_norm.rmsnorm(x, weight, 1e-5))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_fused_add_rmsnorm(shape, dtype):
    x, residual = rows(shape, dtype), rows(shape, dtype)
    weight = torch.randn(shape[1]).to(dtype)
    want, total = ref_norm.fused_add_rmsnorm(x, residual, weight, 1e-5)
    norm.fused_add_rmsnorm(x, residual, weight, 1e-5)
    assert torch.equal(residual, total)
    close(x, want)


# Far down the left tail exp is Inf, and the gate divided by it the right zero.
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["silu", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 129), (1, 1025)], ids=str)
def test_act_and_mul(kind, shape, dtype):
    m, d = shape
    x = rows((m, 2 * d), dtype) * 3
    out = rows(shape, dtype)
    activation.act_and_mul(out, x, kind)
    close(out, getattr(ref_activation, f"{kind}_and_mul")(x), 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens_first", [False, True])
@pytest.mark.parametrize("bmnk", [(1, 1, 1, 1), (3, 5, 7, 67), (2, 129, 127, 33)], ids=str)
def test_batched_gemm(bmnk, tokens_first, dtype):
    b, m, n, k = bmnk
    x, w = torch.randn(b, m, k).to(dtype), torch.randn(b, n, k).to(dtype)
    y = torch.full((b, m, n), torch.nan).to(dtype)
    if tokens_first:
        x, y = (t.transpose(0, 1).contiguous().transpose(0, 1) for t in (x, y))
    gemm.batched_gemm(y, x, w)
    close(y, ref_gemm.batched_gemm(x, w, dtype), 1e-4)


def test_gemm_walks_every_tile():
    # Ten by two tiles of 16: more rows of tiles than one band holds, and a last short one.
    x, w = torch.randn(157, 9), torch.randn(17, 9)
    y = torch.full((157, 17), torch.nan)
    tiles = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "GROUP": 4}
    strides = (0, *x.stride(), 0, *w.stride(), 0, *y.stride())
    gemm.gemm_kernel[(20, 1)](x, w, y, 157, 17, 9, *strides, **tiles)
    close(y, ref_gemm.gemm_a16w16(x, w, torch.float32), 1e-4)


def test_gemm_of_transposed_operands_and_empty_depth():
    x, w = torch.randn(6, 5).t(), torch.randn(6, 4).t()
    y = torch.empty(4, 5).t()
    gemm.gemm_a16w16(y, x, w)
    close(y, ref_gemm.gemm_a16w16(x, w, torch.float32), 1e-5)
    gemm.gemm_a16w16(y, x[:, :0], w[:, :0])
    assert (y == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_reshape_and_cache(dtype):
    qkv = torch.randn(5, 3, 2, 24).to(dtype)
    key, value = qkv[:, 1], qkv[:, 2]
    caches = torch.randn(2, 4, 16, 2, 24).to(dtype)
    want = caches.clone()
    slots = torch.tensor([3, -1, 63, 17, 0])
    cache.reshape_and_cache(key, value, *caches, slots)
    ref_cache.reshape_and_cache(key, value, *want, slots)
    assert torch.equal(caches, want)


def test_cache_wider_than_a_block():
    key, caches = torch.randn(2, 9, 130), torch.zeros(2, 1, 2, 9, 130)
    cache.reshape_and_cache(key, -key, *caches, torch.tensor([1, 0]))
    assert torch.equal(caches[0, 0], key.flip(0))
    assert torch.equal(caches[1, 0], -key.flip(0))


def _cache(**changes):
    operands = {
        "key": torch.zeros(2, 3, 4),
        "value": torch.zeros(2, 3, 4),
        "key_cache": torch.zeros(5, 8, 3, 4),
        "value_cache": torch.zeros(5, 8, 3, 4),
        "slot_mapping": torch.zeros(2, dtype=torch.int64),
    }
    cache.reshape_and_cache(**{**operands, **changes})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: _cache(value=torch.zeros(2, 3, 5)), r"value:.*expected .*\(2, 3, 4\)"),
        (lambda: _cache(key=torch.zeros(2, 4, 3).transpose(1, 2)), "side by side"),
        (lambda: _cache(value_cache=torch.zeros(5, 8, 3, 4).half()), "value_cache: torch.float16"),
        (lambda: _cache(slot_mapping=torch.zeros(2).int()), "expected contiguous int64"),
        (lambda: _cache(key_cache=torch.zeros(40, 3, 4)), "key_cache.*expected 4 axes"),
        (
            lambda: activation.act_and_mul(torch.zeros(2, 3), torch.zeros(2, 7), "silu"),
            r"expected \[m, 2d\]",
        ),
        (
            lambda: activation.act_and_mul(torch.zeros(2, 3), torch.zeros(2, 6), "relu"),
            "'relu', expected one of silu",
        ),
        (
            lambda: norm.rmsnorm(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(4), 1e-5),
            r"weight: shape \(4,\).*expected \(3,\)",
        ),
        (
            lambda: gemm.gemm_a16w16(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(3, 5)),
            r"\[b, m, k\] and \[b, n, k\]",
        ),
        (
            lambda: gemm.gemm_a16w16(torch.zeros(3, 2), torch.zeros(2, 4), torch.zeros(3, 4)),
            r"out: shape .*expected \(1, 2, 3\)",
        ),
        (
            lambda: gemm.gemm_a16w16(
                torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(3, 4).half()
            ),
            "expected the same",
        ),
    ],
)
def test_refused(call, words):
    with pytest.raises(UsageError, match=words):
        call()
