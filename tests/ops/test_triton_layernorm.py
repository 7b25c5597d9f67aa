"""Triton's layer normalisation in the interpreter, and its lowering to cards that are not here."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import layernorm as ref
from optest.errors import UsageError
from optest.ops.triton import layernorm

# One step of the output: a sum in another order may round the other way.
RTOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}
SHAPES = [(1, 1), (3, 7), (2, 127), (2, 129), (1, 4099), (0, 8), (3, 0)]


def rows(shape, dtype):
    """Random rows that are not side by side in memory."""
    m, n = shape
    return (torch.randn(m, n + 3) + 0.5).to(dtype)[:, :n]


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layernorm(shape, dtype):
    """Masked columns in the variance, strides, a last block that is not whole."""
    x, out = rows(shape, dtype), rows(shape, dtype)
    weight, bias = torch.randn(shape[1]).to(dtype), torch.randn(shape[1]).to(dtype)
    layernorm.layernorm(out, x, weight, bias, 1e-5)
    want = ref.layernorm(x, weight, bias, 1e-5)
    torch.testing.assert_close(out, want, rtol=RTOL[dtype], atol=4e-6)


def test_rows_far_from_zero():
    """The variance as a difference of two large sums would be lost in their rounding."""
    x, out = torch.randn(2, 300) + 1000, torch.empty(2, 300)
    layernorm.layernorm(out, x, torch.ones(300), torch.zeros(300), 0.0)
    want = ref.layernorm(x.double(), torch.ones(300), torch.zeros(300), 0.0)
    torch.testing.assert_close(out.double(), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": torch.empty(4)}, r"x: shape \(4,\), expected \[m, n\]"),
        ({"out": torch.empty(4, 5)}, r"out: shape \(4, 5\).*expected \(4, 6\)"),
        ({"weight": torch.empty(5)}, r"weight: shape \(5,\).*expected \(6,\)"),
        ({"bias": torch.empty(12)[::2]}, "bias: .*columns side by side"),
    ],
)
def test_refused(changes, words):
    operands = {
        "out": torch.empty(4, 6),
        "x": torch.empty(4, 6),
        "weight": torch.empty(6),
        "bias": torch.empty(6),
    }
    with pytest.raises(UsageError, match=words):
        layernorm.layernorm(**{**operands, **changes}, eps=1e-5)


def kernels(_target):
    pointers = dict.fromkeys(("out", "x", "weight", "bias"), "*bf16:16")
    signature = {**pointers, "n": "i32", "eps": "fp32", "out_row": "i32", "x_row": "i32"}
    yield "layernorm:layernorm_kernel", signature, {"BLOCK": 1024}


def test_lowers():
    assert_lowers(kernels)
