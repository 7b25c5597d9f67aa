"""Layer normalisation against hand values and fp64."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import layernorm as ref

# Half a step of the output, and for fp32 what fp32 arithmetic inside loses.
RTOL = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5}


def wide_layernorm(x, weight, bias, eps):
    """By the identity var = E[x^2] - E[x]^2, which fp64 has the digits for."""
    x = x.double()
    mean = x.sum(-1, keepdim=True) / x.shape[-1]
    variance = x.square().sum(-1, keepdim=True) / x.shape[-1] - mean.square()
    return (x - mean) * (variance + eps) ** -0.5 * weight.double() + bias.double()


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("shape", [(4, 33), (1, 1), (2, 3, 129)], ids=str)
def test_against_fp64(shape, dtype):
    """A sample's variance instead of the population's, or a bias of another column."""
    x = (torch.randn(shape) + 3).to(dtype)
    weight, bias = torch.randn(shape[-1]).to(dtype), torch.randn(shape[-1]).to(dtype)
    got = ref.layernorm(x, weight, bias, 1e-5)
    assert got.dtype is dtype
    want = wide_layernorm(x, weight, bias, 1e-5)
    torch.testing.assert_close(got.double(), want, rtol=RTOL[dtype], atol=4e-6)


def test_by_hand():
    # Mean 4, variance 1; with eps 3 the divisor is 2.
    got = ref.layernorm(torch.tensor([[3.0, 5.0]]), torch.tensor([1.0, 10.0]), torch.ones(2), 3)
    assert got.tolist() == [[0.5, 6.0]]


def test_rows_far_from_zero_keep_their_digits():
    """E[x^2] - E[x]^2 in fp32 would leave nothing of a variance of 1."""
    x = torch.tensor([[4095.0, 4097.0, 4095.0, 4097.0]])
    got = ref.layernorm(x, torch.ones(4), torch.zeros(4), 0.0)
    torch.testing.assert_close(got, torch.tensor([[-1.0, 1.0, -1.0, 1.0]]))
