"""Quantisation with what comes before it, against fp64 and hand values."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import norm_quant as ref

LIMITS = {torch.float8_e4m3fn: 448.0, torch.float8_e4m3fnuz: 240.0, torch.int8: 127.0}
DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def assert_codes(q, scales, wide, quant_dtype):
    """Of ``wide``, fp64: scales within fp32's steps, values within half a step of 8 bits."""
    want = wide.abs().amax(-1, keepdim=True) / LIMITS[quant_dtype]
    torch.testing.assert_close(scales.double(), want, rtol=2**-20, atol=0)
    restored = q.double() * scales.double()
    # Half a step of int8 is half a scale; of e4m3, 2^-4 of the value, or less than 2^-9 scales.
    half = 0.5 * want if quant_dtype is torch.int8 else wide.abs() * 2**-4 + want * 2**-9
    assert ((restored - wide).abs() <= half + 1e-5 * wide.abs()).all()


@pytest.mark.parametrize("quant_dtype", LIMITS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_norm_of_the_sum_is_what_is_quantised(dtype, quant_dtype):
    """Not of x alone, and not rounded to 16 bits first: the scale would show it."""
    x, residual = torch.randn(5, 67).to(dtype), torch.randn(5, 67).to(dtype)
    weight = torch.randn(67).to(dtype)
    q, scales, total = ref.fused_add_rmsnorm_quant(x, residual, weight, 1e-5, quant_dtype)
    assert q.dtype is quant_dtype
    assert torch.equal(total, (x.double() + residual.double()).to(dtype))
    kept = total.double()
    divisor = (kept.square().sum(-1, keepdim=True) / 67 + 1e-5).sqrt()
    assert_codes(q, scales, kept / divisor * weight.double(), quant_dtype)


def test_norm_by_hand():
    # The sum is (3, 4); with eps 12.5 the divisor is 5, the norm (0.6, 8).
    x, residual = torch.tensor([[1.0, 4.0]]), torch.tensor([[2.0, 0.0]])
    weight = torch.tensor([1.0, 10.0])
    q, scales, total = ref.fused_add_rmsnorm_quant(x, residual, weight, 12.5, torch.int8)
    assert total.tolist() == [[3.0, 4.0]]
    assert scales.item() == pytest.approx(8 / 127)
    assert q.tolist() == [[10, 127]]


@pytest.mark.parametrize("quant_dtype", LIMITS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_smoothquant_multiplies_channels(dtype, quant_dtype):
    """Not divides, nor by a scale of another channel."""
    x, smooth = torch.randn(5, 67).to(dtype), torch.rand(67) * 4 + 0.1
    q, scales = ref.smoothquant(x, smooth, quant_dtype)
    assert q.dtype is quant_dtype
    assert_codes(q, scales, x.double() * smooth.double(), quant_dtype)


def test_smoothquant_by_hand():
    q, scales = ref.smoothquant(
        torch.tensor([[127.0, 2.0], [0.0, 0.0]]), torch.tensor([2.0, 8.0]), torch.int8
    )
    assert scales.tolist() == [[2.0], [1.0]]
    assert q.tolist() == [[127, 8], [0, 0]]
