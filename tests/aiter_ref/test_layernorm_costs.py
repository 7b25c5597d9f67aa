"""The cost of layer normalisation against an instrumented count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from aiter_ref import layernorm as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations

M, N = 48, 256


def test_layernorm():
    x, weight, bias = torch.randn(M, N), torch.randn(N), torch.randn(N)
    cost = ref.layernorm_cost(M, N, 4)
    counted = operations(ref.layernorm, x, weight, bias, 1e-5)
    # The root and what else is done once a row is left out of the formula.
    assert counted == pytest.approx(cost.flops, rel=4 / N)
    assert cost.nbytes == 2 * x.nbytes + weight.nbytes + bias.nbytes
