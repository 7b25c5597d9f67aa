"""The convolution's step against a convolution of whole sequences, and its cost as counted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from aiter_ref import conv1d as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations


@pytest.mark.parametrize("silu", [True, False])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_steps_make_the_convolution_of_the_sequence(width, silu):
    """Taps in the wrong order, a state that does not move on, or that of another slot."""
    batch, dim, length = 3, 5, 7
    x, weight, bias = torch.randn(batch, dim, length), torch.randn(dim, width), torch.randn(dim)
    want = F.conv1d(F.pad(x.double(), (width - 1, 0)), weight.double()[:, None], groups=dim)
    want += bias.double()[:, None]
    state = torch.zeros(6, dim, width - 1)
    slots = torch.tensor([4, 0, 3], dtype=torch.int32)
    for t in range(length):
        y, state = ref.causal_conv1d_update(x[..., t], state, weight, bias, slots, silu=silu)
        expected = F.silu(want[..., t]) if silu else want[..., t]
        torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-6)
    if width > 1:
        assert torch.equal(state[slots.long()], x[..., 1 - width :])
    assert (state[[1, 2, 5]] == 0).all()


def test_padding_has_no_state():
    state, x = torch.randn(2, 3, 3), torch.randn(2, 3)
    slots = torch.tensor([-1, 1], dtype=torch.int32)
    operands = (x, state, torch.randn(3, 4), torch.randn(3), slots)
    y, after = ref.causal_conv1d_update(*operands, silu=True)
    assert (y[0] == 0).all()
    assert torch.equal(after[0], state[0])
    assert torch.equal(after[1], torch.cat([state[1, :, 1:], x[1, :, None]], 1))


@pytest.mark.parametrize("silu", [True, False])
def test_cost(silu):
    batch, dim, width = 6, 32, 4
    x, weight, bias = torch.randn(batch, dim), torch.randn(dim, width), torch.randn(dim)
    state, slots = torch.randn(batch, dim, width - 1), torch.arange(batch, dtype=torch.int32)
    operands = (x, state, weight, bias, slots)
    cost = ref.causal_conv1d_update_cost(batch, dim, width, 4, silu=silu)
    finding = batch  # which rows have a slot: no operation of the formula
    counted = operations(lambda *a: ref.causal_conv1d_update(*a, silu=silu), *operands)
    assert counted - finding == cost.flops
    y, after = ref.causal_conv1d_update(*operands, silu=silu)
    assert cost.nbytes == sum(t.nbytes for t in (*operands, y, after))
