"""One step of a causal convolution: values, and the state to the bit."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import conv1d as ref
from optest import native

RTOL = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5}
# Below, at and above vectors and blocks of columns; more rows than go together.
SHAPES = [(1, 1), (3, 33), (40, 129), (2, 2100)]


@pytest.fixture(scope="module")
def ops():
    return native.csrc("conv1d")


def operands(batch, dim, width, layout, dtype):
    slots = torch.randperm(2 * batch + 1, dtype=torch.int32)[:batch]
    state = torch.randn(2 * batch + 1, dim, width - 1).to(dtype)
    if layout == "swd":
        state = state.transpose(1, 2).contiguous().transpose(1, 2)
    x = torch.randn(batch, dim + 3).to(dtype)[:, 1 : dim + 1]
    return x, state, torch.randn(dim, width).to(dtype), torch.randn(dim).to(dtype), slots


def assert_step(ops, x, state, weight, bias, slots, *, silu):
    want, after = ref.causal_conv1d_update(x, state, weight, bias, slots, silu=silu)
    y = torch.full((len(x), x.shape[1] + 2), torch.nan, dtype=x.dtype)
    ops.causal_conv1d_update(y[:, 1:-1], x, state, weight, bias, slots, silu)
    # One step apart where fp32 sums in another order lie on either side of a tie.
    torch.testing.assert_close(y[:, 1:-1], want, rtol=2 * RTOL[x.dtype], atol=2e-6)
    assert torch.equal(state, after)
    assert y[:, [0, -1]].isnan().all()


@pytest.mark.parametrize("silu", [True, False])
@pytest.mark.parametrize("layout", ["swd", "sdw"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", RTOL, ids=str)
def test_causal_conv1d_update(ops, dtype, width, layout, silu):
    """Taps of another column, a position that is lost or moved twice, rows of another slot."""
    for batch, dim in SHAPES:
        assert_step(ops, *operands(batch, dim, width, layout, dtype), silu=silu)


def test_padding_and_its_state(ops):
    x, state, weight, bias, slots = operands(5, 40, 4, "swd", torch.bfloat16)
    slots[1] = slots[3] = -1
    assert_step(ops, x, state, weight, bias, slots, silu=True)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0)], ids=str)
def test_empty(ops, shape):
    assert_step(ops, *operands(*shape, 4, "sdw", torch.float32), silu=True)


X, STATE, W, BIAS = torch.zeros(2, 8), torch.zeros(4, 8, 3), torch.zeros(8, 4), torch.zeros(8)
SLOTS = torch.arange(2, dtype=torch.int32)
BAD = {
    "x has dtype": {"x": X.double()},
    r"y has shape \[2, 7\]": {"y": X[:, :7]},
    "state has dtype": {"state": STATE.half()},
    r"state has shape \[4, 8, 2\], expected \[slots, 8, 3\]": {"state": STATE[..., :2]},
    r"weight has shape \[4, 8\]": {"weight": W.t()},
    r"bias has shape \[7\]": {"bias": BIAS[:7]},
    "slots has dtype": {"slots": SLOTS.long()},
    "slots holds 4, expected up to 3": {"slots": SLOTS + 3},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    operands = {"y": X.clone(), "x": X, "state": STATE, "weight": W, "bias": BIAS, "slots": SLOTS}
    with pytest.raises(ValueError, match=message):
        ops.causal_conv1d_update(**{**operands, **BAD[message]}, silu=True)
