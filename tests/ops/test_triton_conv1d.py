"""Triton's step of a causal convolution in the interpreter, and its lowering to cards not here."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import conv1d as ref
from optest.errors import UsageError
from optest.ops.triton import conv1d

RTOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}


@pytest.mark.parametrize("silu", [True, False])
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("dtype", RTOL, ids=str)
def test_causal_conv1d_update(dtype, width, silu):
    """Masks of ragged blocks, taps of another column, a position that is lost; padding."""
    for batch, dim in ((1, 1), (3, 33), (2, 300), (0, 4), (2, 0)):
        x = torch.randn(batch, dim + 3).to(dtype)[:, 1 : dim + 1]
        state = torch.randn(2 * batch + 1, width - 1, dim).to(dtype).transpose(1, 2)
        slots = torch.randperm(2 * batch + 1, dtype=torch.int32)[:batch]
        slots[:1] = -1 if batch > 2 else slots[:1]
        weight, bias = torch.randn(dim, width).to(dtype), torch.randn(dim).to(dtype)
        want, after = ref.causal_conv1d_update(x, state, weight, bias, slots, silu=silu)
        y = torch.full_like(want, torch.nan)
        conv1d.causal_conv1d_update(y, x, state, weight, bias, slots, silu)
        torch.testing.assert_close(y, want, rtol=RTOL[dtype], atol=1e-5)
        assert torch.equal(state, after)


X, STATE, W, BIAS = torch.zeros(2, 8), torch.zeros(4, 8, 3), torch.zeros(8, 4), torch.zeros(8)
SLOTS = torch.arange(2, dtype=torch.int32)
REFUSED = {
    "x: torch.float64": {"x": X.double()},
    r"y: shape \(2, 7\)": {"y": X[:, :7]},
    "state: torch.float16": {"state": STATE.half()},
    r"state: shape \(4, 8, 2\), expected \[slots, 8, 3\]": {"state": STATE[..., :2]},
    r"weight: shape \(4, 8\)": {"weight": W[:4].repeat(1, 2)},
    r"bias: shape \(7,\)": {"bias": BIAS[:7]},
    "slots: torch.int64": {"slots": SLOTS.long()},
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_refused(words):
    operands = {"y": X.clone(), "x": X, "state": STATE, "weight": W, "bias": BIAS, "slots": SLOTS}
    with pytest.raises(UsageError, match=words):
        conv1d.causal_conv1d_update(**{**operands, **REFUSED[words]}, silu=True)


def kernels(_target):
    pointers = dict.fromkeys(("y", "x", "state", "weight", "bias"), "*bf16:16")
    strides = dict.fromkeys(("y_row", "x_row", "state_slot", "state_position"), "i32:16")
    sizes = {"slots": "*i32:16", "dim": "i32:16", "state_column": "i32"}
    constants = {"WIDTH": 4, "SILU": True, "BLOCK": 256}
    yield "conv1d:update_kernel", {**pointers, **sizes, **strides}, constants


def test_lowers():
    assert_lowers(kernels)
