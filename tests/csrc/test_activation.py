"""Gated activations against fp64."""

from __future__ import annotations

import math

import pytest
import torch

from optest import native

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
PLACES = ((1, "dense"), (127, "strided"), (129, "transposed"), (4095, "3d"))


def silu(v: torch.Tensor) -> torch.Tensor:
    return v / (1 + torch.exp(-v))


def gelu(v: torch.Tensor) -> torch.Tensor:
    return v / 2 * torch.erfc(-v / math.sqrt(2))


def gelu_tanh(v: torch.Tensor) -> torch.Tensor:
    u = math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)
    return v / (1 + torch.exp(-2 * u))


FUNCTIONS = {"silu": silu, "gelu": gelu, "gelu_tanh": gelu_tanh}
BY_NAME = pytest.mark.parametrize("name", FUNCTIONS)


@pytest.fixture(scope="module")
def ops():
    return native.csrc("activation")


def run(ops, name: str, x: torch.Tensor) -> torch.Tensor:
    out = torch.full_like(x[..., : x.shape[-1] // 2], 77, memory_format=torch.contiguous_format)
    getattr(ops, f"{name}_and_mul")(out, x)
    return out


def reference(name: str, x: torch.Tensor) -> torch.Tensor:
    gate, up = x.double().chunk(2, -1)
    return FUNCTIONS[name](gate) * up


def assert_near(got: torch.Tensor, want: torch.Tensor, atol: float = 1e-6) -> None:
    eps = torch.finfo(got.dtype).eps
    rtol = 3e-6 if got.dtype == torch.float32 else 0.51 * eps + 3e-6
    torch.testing.assert_close(got.double(), want, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize(("length", "layout"), PLACES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@BY_NAME
def test_against_fp64(ops, name, dtype, length, layout, lay_out, room_like):
    x = lay_out(torch.randn(6, 2 * length).to(dtype) * 4, layout)
    out = room_like(x[..., :length], dtype, layout)
    getattr(ops, f"{name}_and_mul")(out, x)
    assert_near(out, reference(name, x))


@BY_NAME
def test_over_the_whole_range(ops, name):
    """Relative, far into the tail: one that is cut off early or has the wrong sign shows here."""
    gate = torch.linspace(-12.5, 100, 400_001)
    x = torch.cat([gate, torch.ones_like(gate)])[None]
    got, want = run(ops, name, x)[0].double(), reference(name, x)[0]
    error = ((got - want).abs() / want.abs().clamp(min=1e-30)).max().item()
    assert error < 2e-5


@BY_NAME
def test_zeros_infinities_nan(ops, name):
    gate = torch.tensor([0.0, -0.0, float("inf"), float("nan"), 3e38, -3e38, 1e-30, -200.0])
    x = torch.cat([gate, torch.ones_like(gate)])[None]
    assert_near(run(ops, name, x), reference(name, x), atol=1e-30)


@BY_NAME
def test_nan_and_infinity_of_the_other_half_pass_through(ops, name):
    up = torch.tensor([float("nan"), float("inf"), -float("inf")])
    x = torch.cat([torch.ones_like(up), up])[None]
    assert_near(run(ops, name, x), reference(name, x))


def test_past_the_caches_and_one_long_row(ops):
    period, repeats = 10_007, 4000
    gate, up = torch.randn(2, 1, period).bfloat16()
    got = run(ops, "silu", torch.cat([gate.repeat(1, repeats), up.repeat(1, repeats)], -1))
    once = torch.cat([gate, up], -1)
    assert_near(got[:, :period], reference("silu", once))
    assert torch.equal(got, got[:, :period].repeat(1, repeats))


@pytest.mark.parametrize("shape", [(0, 8), (3, 0)])
def test_empty(ops, shape):
    assert run(ops, "silu", torch.empty(shape, dtype=torch.bfloat16)).numel() == 0


X = torch.zeros(4, 32, dtype=torch.bfloat16)
HALF = torch.zeros(4, 16, dtype=torch.bfloat16)
BAD = {
    "out has dtype": lambda ops: ops.silu_and_mul(HALF.float(), X),
    r"x has shape \[4, 31\]": lambda ops: ops.silu_and_mul(HALF, X[:, :31]),
    r"out has shape \[4, 32\]": lambda ops: ops.gelu_and_mul(X.clone(), X),
    r"out has shape \[3, 16\]": lambda ops: ops.gelu_tanh_and_mul(HALF[:3], X),
    "x has dtype Double": lambda ops: ops.silu_and_mul(HALF.double(), X.double()),
    "out has stride 4": lambda ops: ops.silu_and_mul(
        torch.zeros(16, 4, dtype=torch.bfloat16).t(), X
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
