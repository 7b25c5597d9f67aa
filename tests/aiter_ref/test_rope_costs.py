"""Costs of rotary position embedding against an instrumented count."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from aiter_ref import rope as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations

TOKENS, HEADS, SIZE, ROTARY = 6, 3, 64, 32


@pytest.fixture
def operands():
    cos_sin = ref.cos_sin_cache(TOKENS, ROTARY, torch.float32)
    return torch.randn(TOKENS, HEADS, SIZE), torch.arange(TOKENS), cos_sin


@pytest.mark.parametrize("is_neox", [True, False])
def test_rope(operands, is_neox):
    x, positions, cos_sin = operands
    cost = ref.rope_cost(TOKENS, HEADS, ROTARY, 4, 4)
    assert operations(partial(ref.rope, is_neox=is_neox), *operands) == cost.flops
    turning = x[..., :ROTARY].numel() * 4
    assert cost.nbytes == 2 * turning + positions.nbytes + cos_sin.nbytes


def test_norm_rope(operands):
    x, positions, cos_sin = operands
    cost = ref.norm_rope_cost(TOKENS, HEADS, SIZE, ROTARY, 4, 4)
    weight = torch.ones(SIZE)
    formula = partial(ref.norm_rope, is_neox=True)
    # The root of a head is left out of the formula.
    counted = operations(formula, x, weight, positions, cos_sin, 1e-6)
    assert counted == pytest.approx(cost.flops, rel=4 / SIZE)
    # Queries and keys have a weight each.
    assert cost.nbytes == 2 * (x.nbytes + weight.nbytes) + positions.nbytes + cos_sin.nbytes
