"""RMSNorm against fp64."""

from __future__ import annotations

import pytest
import torch

from optest import native

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
PLACES = ((1, "dense"), (127, "strided"), (129, "transposed"), (4095, "3d"))
EPS = 1e-6


@pytest.fixture(scope="module")
def ops():
    return native.csrc("norm")


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    wide = x.double()
    return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight.double()


def assert_rounded(got: torch.Tensor, want: torch.Tensor) -> None:
    """Within what one rounding to the dtype, after fp32 arithmetic, may change."""
    eps = torch.finfo(got.dtype).eps
    rtol = {torch.float32: 1e-5}.get(got.dtype, 0.51 * eps + 1e-5)
    smallest = torch.finfo(got.dtype).smallest_normal * eps
    torch.testing.assert_close(got.double(), want, rtol=rtol, atol=smallest, equal_nan=True)


@pytest.mark.parametrize(("length", "layout"), PLACES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rmsnorm(ops, dtype, length, layout, lay_out, room_like):
    x = lay_out(torch.randn(6, length).to(dtype), layout)
    weight = torch.randn(length).to(dtype)
    out = room_like(x, dtype, layout)
    ops.rmsnorm(out, x, weight, EPS)
    assert_rounded(out, reference(x, weight))


@pytest.mark.parametrize("weight_dtype", DTYPES, ids=str)
def test_weight_of_another_dtype(ops, weight_dtype):
    x, weight = torch.randn(5, 200).bfloat16(), torch.randn(200).to(weight_dtype)
    out = torch.empty_like(x)
    ops.rmsnorm(out, x, weight, EPS)
    assert_rounded(out, reference(x, weight))


@pytest.mark.parametrize(("length", "layout"), PLACES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fused_add_rounds_the_sum_and_normalises_that(ops, dtype, length, layout, lay_out):
    x = lay_out(torch.randn(6, length).to(dtype), layout)
    residual = lay_out(torch.randn(6, length).to(dtype), layout)
    weight, total = torch.randn(length).to(dtype), x + residual
    ops.fused_add_rmsnorm(x, residual, weight, EPS)
    assert torch.equal(residual, total)
    assert_rounded(x, reference(total, weight))


def test_zeros_nan_and_infinity_stay_in_their_rows(ops):
    x = torch.randn(4, 300)
    x[0], x[1, 299], x[2, 5] = 0, float("nan"), float("inf")
    weight, out = torch.ones(300), torch.full((4, 300), 7.0)
    ops.rmsnorm(out, x, weight, EPS)
    assert_rounded(out, reference(x, weight))


def test_eps_decides_for_small_rows(ops):
    x, weight = torch.full((2, 64), 1e-4), torch.ones(64)
    out = torch.empty_like(x)
    ops.rmsnorm(out, x, weight, 1e-2)
    assert_rounded(out, reference(x, weight, 1e-2))


def test_past_the_caches(ops):
    x = torch.randn(40, 4099).bfloat16().repeat(260, 1)
    weight, out = torch.randn(4099).bfloat16(), torch.empty_like(x)
    ops.rmsnorm(out, x, weight, EPS)
    assert_rounded(out[:40], reference(x[:40], weight))
    assert torch.equal(out, out[:40].repeat(260, 1))


@pytest.mark.parametrize("shape", [(0, 8), (3, 0)])
def test_empty(ops, shape):
    x = torch.empty(shape, dtype=torch.bfloat16)
    ops.rmsnorm(torch.empty_like(x), x, torch.ones(shape[-1]), EPS)
    ops.fused_add_rmsnorm(x, torch.empty_like(x), torch.ones(shape[-1]), EPS)


X = torch.zeros(4, 32, dtype=torch.bfloat16)
W = torch.ones(32)
BAD = {
    "out has dtype": lambda ops: ops.rmsnorm(X.float(), X, W, EPS),
    r"out has shape \[4, 16\]": lambda ops: ops.rmsnorm(X[:, :16], X, W, EPS),
    r"weight has shape \[31\]": lambda ops: ops.rmsnorm(X.clone(), X, W[:31], EPS),
    "weight has dtype": lambda ops: ops.rmsnorm(X.clone(), X, W.double(), EPS),
    "x has dtype": lambda ops: ops.rmsnorm(X.double(), X.double(), W, EPS),
    r"residual has shape \[1, 32\]": lambda ops: ops.fused_add_rmsnorm(X, X[:1], W, EPS),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
