"""References of gemm, norm, activation and cache against hand values and fp64 formulas."""

from __future__ import annotations

import math

import pytest
import torch

from aiter_ref import activation, cache, gemm, norm

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
# Half a step of the output, and for fp32 what fp32 arithmetic inside loses.
RTOL = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5}


def close(got, want, rtol, atol=1e-6):
    assert got.shape == want.shape
    torch.testing.assert_close(got.double(), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gemm(dtype):
    x, w = torch.randn(5, 67).to(dtype), torch.randn(3, 67).to(dtype)
    want = torch.stack([(x.double() * row).sum(1) for row in w.double()], 1)
    got = gemm.gemm_a16w16(x, w, dtype)
    assert got.dtype is dtype
    close(got, want, RTOL[dtype], 1e-4)
    close(gemm.batched_gemm(x[None], w[None], dtype)[0], want, RTOL[dtype], 1e-4)


def test_gemm_by_hand_transposes_the_weight():
    x, w = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    assert gemm.gemm_a16w16(x, w, torch.float32).tolist() == [[11.0, 17.0, 23.0]]


def test_gemm_sums_in_fp32():
    # In bf16 the running sum would stick at 256.
    ones = torch.ones(1, 1024, dtype=torch.bfloat16)
    assert gemm.gemm_a16w16(ones, ones, torch.bfloat16).item() == 1024


@pytest.mark.parametrize("dtype", DTYPES)
def test_rmsnorm(dtype):
    x, weight = torch.randn(4, 33).to(dtype), torch.randn(33).to(dtype)
    wide = x.double()
    length = torch.tensor([math.sqrt(sum(v * v for v in row) / 33 + 1e-5) for row in wide.tolist()])
    want = wide / length[:, None] * weight.double()
    got = norm.rmsnorm(x, weight, 1e-5)
    assert got.dtype is dtype
    close(got, want, RTOL[dtype])


def test_rmsnorm_by_hand():
    # mean of squares of (3, 4) is 12.5; with eps 12.5 the divisor is 5.
    got = norm.rmsnorm(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 10.0]), 12.5)
    torch.testing.assert_close(got, torch.tensor([[0.6, 8.0]]))


def test_fused_add_normalises_the_residual_that_goes_on():
    x, residual = torch.randn(4, 33).bfloat16(), torch.randn(4, 33).bfloat16()
    weight = torch.randn(33).bfloat16()
    y, total = norm.fused_add_rmsnorm(x, residual, weight, 1e-6)
    assert torch.equal(total, (x.double() + residual.double()).bfloat16())
    assert torch.equal(y, norm.rmsnorm(total, weight, 1e-6))


GATES = {
    "silu_and_mul": lambda a: a / (1 + math.exp(-a)),
    "gelu_and_mul": lambda a: a * math.erfc(-a / math.sqrt(2)) / 2,
    "gelu_tanh_and_mul": lambda a: (
        a / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", GATES)
def test_activations(name, dtype):
    x = (torch.randn(3, 2 * 17) * 3).to(dtype)
    gates = torch.tensor([[GATES[name](a) for a in row] for row in x[:, :17].tolist()])
    want = gates.double() * x[:, 17:].double()
    got = getattr(activation, name)(x)
    assert got.dtype is dtype
    close(got, want, RTOL[dtype], 1e-5)


def test_gates_are_the_first_half():
    x = torch.tensor([[0.0, 100.0, 5.0, 2.0]])
    assert activation.silu_and_mul(x).tolist() == [[0.0, 200.0]]


def test_cache_by_hand():
    key = torch.arange(1.0, 4.0).reshape(3, 1, 1)
    key_cache, value_cache = torch.zeros(2, 2, 1, 1), torch.full((2, 2, 1, 1), 9.0)
    cache.reshape_and_cache(key, -key, key_cache, value_cache, torch.tensor([3, -1, 0]))
    assert key_cache.flatten().tolist() == [3.0, 0.0, 0.0, 1.0]
    assert value_cache.flatten().tolist() == [-3.0, 9.0, 9.0, -1.0]


def test_cache_refuses_a_slot_beyond_it():
    key = torch.zeros(1, 1, 1)
    with pytest.raises(IndexError):
        cache.reshape_and_cache(
            key, key, torch.zeros(2, 2, 1, 1), torch.zeros(2, 2, 1, 1), torch.tensor([4])
        )
