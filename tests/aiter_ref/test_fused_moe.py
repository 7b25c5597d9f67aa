"""The reference of a mixture's experts against token by token, and its cost as counted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from aiter_ref import fused_moe as ref
from aiter_ref import quant

sys.path.append(str(Path(__file__).parent))
from counting import operations

M, TOPK, HIDDEN, INTER, EXPERTS = 9, 2, 32, 48, 5


def routed():
    return torch.rand(M, TOPK), torch.rand(M, EXPERTS).topk(TOPK).indices.int()


def weights_of(*shape):
    return torch.randn(shape) * shape[-1] ** -0.5


def quantised(x, dtype):
    q, scales = quant.dynamic_per_token_quant(x.flatten(0, -2), dtype)
    return q.view(x.shape), scales.view(*x.shape[:-1], 1)


def by_token(x, w_gate_up, w_down, weights, ids, between=lambda h: h):
    """As the papers write it, a token and an expert at a time; ids of other ranks left out."""
    y = torch.zeros(x.shape, dtype=torch.float64)
    for token, chosen in enumerate(ids.tolist()):
        for slot, at in enumerate(chosen):
            if 0 <= at < len(w_down):
                gate, up = (w_gate_up[at].double() @ x[token].double()).chunk(2)
                h = between(torch.nn.functional.silu(gate) * up)
                y[token] += weights[token, slot].double() * (w_down[at].double() @ h)
    return y


def test_each_token_goes_through_its_experts():
    weights, ids = routed()
    ids[0, 0], ids[3] = EXPERTS, -1  # those of another rank
    x, gate_up = torch.randn(M, HIDDEN), weights_of(EXPERTS, 2 * INTER, HIDDEN)
    down = weights_of(EXPERTS, HIDDEN, INTER)
    made = ref.fused_moe(x, gate_up, down, weights, ids)
    exact = by_token(x, gate_up, down, weights, ids)
    # Half a step: fp64 up to the end, the sum over a token's experts too.
    torch.testing.assert_close(made.double(), exact, rtol=1.001 * 2**-24, atol=1e-12)
    assert (made[3] == 0).all()
    half = [t.bfloat16() for t in (x, gate_up, down)]
    want = by_token(*half, weights, ids).bfloat16()
    assert torch.equal(ref.fused_moe(*half, weights, ids), want)  # rounded once


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn], ids=str)
def test_a8w8_is_the_layer_of_what_the_codes_stand_for(dtype):
    weights, ids = routed()
    (x, x_scale), (gate_up, gate_up_scale), (down, down_scale) = (
        quantised(t, dtype)
        for t in (
            torch.randn(M, HIDDEN),
            weights_of(EXPERTS, 2 * INTER, HIDDEN),
            weights_of(EXPERTS, HIDDEN, INTER),
        )
    )

    def between(h):
        q, scale = quant.dynamic_per_token_quant(h.float()[None], dtype)
        return (q.double() * scale.double())[0]

    meant = (x.double() * x_scale, gate_up.double() * gate_up_scale, down.double() * down_scale)
    want = by_token(*meant, weights, ids, between)
    operands = (x, x_scale, gate_up, gate_up_scale, down, down_scale, weights, ids)
    made = ref.fused_moe_a8w8(*operands, torch.float32)
    torch.testing.assert_close(made.double(), want, rtol=1e-5, atol=1e-5)


def test_no_token_and_no_expert():
    x, ids = torch.zeros(0, 4), torch.zeros(0, 2, dtype=torch.int32)
    empty = ref.fused_moe(x, torch.zeros(3, 6, 4), torch.zeros(3, 4, 3), torch.zeros(0, 2), ids)
    assert empty.shape == (0, 4)


def test_cost():
    weights, ids = routed()
    x, gate_up = torch.randn(M, HIDDEN), weights_of(EXPERTS, 2 * INTER, HIDDEN)
    down, used = weights_of(EXPERTS, HIDDEN, INTER), len(ids.unique())
    cost = ref.fused_moe_cost(M, TOPK, HIDDEN, INTER, used, 4)
    finding = EXPERTS * ids.numel()  # which pairs an expert has: no operation of the formula
    counted = operations(ref.fused_moe, x, gate_up, down, weights, ids)
    assert counted - finding == cost.flops
    y = ref.fused_moe(x, gate_up, down, weights, ids)
    read = [x, gate_up[:used], down[:used], weights, ids]
    assert cost.nbytes == sum(t.nbytes for t in (*read, y))


def test_cost_of_a8w8():
    weights, ids = routed()
    (x, x_scale), gate_up, down = (
        quantised(t, torch.int8)
        for t in (
            torch.randn(M, HIDDEN),
            weights_of(EXPERTS, 2 * INTER, HIDDEN),
            weights_of(EXPERTS, HIDDEN, INTER),
        )
    )
    operands, used = (x, x_scale, *gate_up, *down, weights, ids), len(ids.unique())
    cost = ref.fused_moe_a8w8_cost(M, TOPK, HIDDEN, INTER, used, 2)
    finding, pairs = EXPERTS * ids.numel(), ids.numel()
    rounding = pairs * INTER  # comes with the cast that stores a code
    lower_order = 3 * pairs  # the division of a row's largest, and what stands for 0
    counted = operations(ref.fused_moe_a8w8, *operands, torch.bfloat16)
    assert counted - finding - rounding - lower_order == cost.flops
    y = ref.fused_moe_a8w8(*operands, torch.bfloat16)
    read = [x, x_scale, *(t[:used] for t in (*gate_up, *down)), weights, ids]
    assert cost.nbytes == sum(t.nbytes for t in (*read, y))
