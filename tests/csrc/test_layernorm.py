"""Layer normalisation against fp64."""

from __future__ import annotations

import pytest
import torch

from optest import native

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
PLACES = ((1, "dense"), (127, "strided"), (129, "transposed"), (4095, "3d"), (8192, "dense"))
EPS = 1e-6


@pytest.fixture(scope="module")
def ops():
    return native.csrc("layernorm")


def reference(x, weight, bias, eps=EPS):
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    inverse = torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps)
    return centred * inverse * weight.double() + bias.double()


def assert_rounded(got, want, atol=4e-6):
    """Within what one rounding to the dtype, after fp32 arithmetic, may change."""
    rtol = 1e-5 + (0 if got.dtype == torch.float32 else 0.51 * torch.finfo(got.dtype).eps)
    torch.testing.assert_close(got.double(), want, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize(("length", "layout"), PLACES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layernorm(ops, dtype, length, layout, lay_out, room_like):
    """Tails, strides, and columns whose weight or bias is another's."""
    x = lay_out((torch.randn(6, length) + 0.5).to(dtype), layout)
    weight, bias = torch.randn(length).to(dtype), torch.randn(length).to(dtype)
    out = room_like(x, dtype, layout)
    ops.layernorm(out, x, weight, bias, EPS)
    assert_rounded(out, reference(x, weight, bias))


@pytest.mark.parametrize("length", [200, 45])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("weight_dtype", DTYPES, ids=str)
def test_weight_and_bias_of_other_dtypes(ops, weight_dtype, dtype, length):
    x, weight = torch.randn(5, length).to(dtype), torch.randn(length).to(weight_dtype)
    bias, out = torch.randn(length), torch.empty_like(x)
    ops.layernorm(out, x, weight, bias, EPS)
    assert_rounded(out, reference(x, weight, bias))


@pytest.mark.parametrize("offset", [1000.0, -4096.0])
def test_rows_far_from_zero(ops, offset):
    """The variance as a difference of two large sums would be lost in their rounding."""
    x = torch.randn(3, 1027) + offset
    weight, bias, out = torch.ones(1027), torch.zeros(1027), torch.empty_like(x)
    ops.layernorm(out, x, weight, bias, EPS)
    # The mean of a row is known to half a step of its fp32.
    assert_rounded(out, reference(x, weight, bias), atol=abs(offset) * 2**-23)


def test_zeros_nan_and_infinity_stay_in_their_rows(ops):
    x = torch.randn(4, 300)
    x[0], x[1, 299], x[2, 5] = 0, float("nan"), float("inf")
    weight, bias = torch.ones(300), torch.ones(300)
    out = torch.full((4, 300), 7.0)
    ops.layernorm(out, x, weight, bias, EPS)
    assert_rounded(out, reference(x, weight, bias))


def test_a_nan_of_the_weight_stays_in_its_column(ops):
    """One whose payload rounds over would come out as a number."""
    weight = torch.ones(70)
    weight.view(torch.int32)[37] = 0x7FFFFFFF
    x, out = torch.randn(2, 70).bfloat16(), torch.empty(2, 70).bfloat16()
    ops.layernorm(out, x, weight, torch.zeros(70), EPS)
    assert out[0].isnan().nonzero().flatten().tolist() == [37]


def test_past_the_caches(ops):
    x = torch.randn(40, 4099).bfloat16().repeat(260, 1)
    weight, bias = torch.randn(4099).bfloat16(), torch.randn(4099).bfloat16()
    out = torch.empty_like(x)
    ops.layernorm(out, x, weight, bias, EPS)
    assert_rounded(out[:40], reference(x[:40], weight, bias))
    assert torch.equal(out, out[:40].repeat(260, 1))


@pytest.mark.parametrize("shape", [(0, 8), (3, 0)])
def test_empty(ops, shape):
    x, ones = torch.empty(shape, dtype=torch.bfloat16), torch.ones(shape[-1])
    ops.layernorm(torch.empty_like(x), x, ones, ones, EPS)


X = torch.zeros(4, 32, dtype=torch.bfloat16)
W = torch.ones(32)
BAD = {
    "out has dtype": lambda ops: ops.layernorm(X.float(), X, W, W, EPS),
    r"out has shape \[4, 16\]": lambda ops: ops.layernorm(X[:, :16], X, W, W, EPS),
    r"weight has shape \[31\]": lambda ops: ops.layernorm(X.clone(), X, W[:31], W, EPS),
    "bias has dtype": lambda ops: ops.layernorm(X.clone(), X, W, W.double(), EPS),
    "x has dtype": lambda ops: ops.layernorm(X.double(), X.double(), W, W, EPS),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
