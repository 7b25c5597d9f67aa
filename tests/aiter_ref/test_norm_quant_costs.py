"""Costs of quantisation with what comes before it, against an instrumented count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from aiter_ref import norm_quant as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations

M, N = 48, 256
ROUNDING = M * N  # comes with the cast that stores a code
LOWER_ORDER = 8 / N  # the roots and divisions of a row are left out of the formulas


def test_fused_add_rmsnorm_quant():
    x, residual, weight = torch.randn(M, N), torch.randn(M, N), torch.randn(N)
    operands = (x, residual, weight, 1e-5, torch.int8)
    counted = operations(ref.fused_add_rmsnorm_quant, *operands) - ROUNDING
    q, scales, total = ref.fused_add_rmsnorm_quant(*operands)
    cost = ref.fused_add_rmsnorm_quant_cost(M, N, 4, 1)
    assert counted == pytest.approx(cost.flops, rel=LOWER_ORDER)
    tensors = (x, residual, weight, q, scales, total)
    assert cost.nbytes == sum(tensor.nbytes for tensor in tensors)


def test_smoothquant():
    operands = (torch.randn(M, N), torch.rand(N), torch.int8)
    counted = operations(ref.smoothquant, *operands) - ROUNDING
    q, scales = ref.smoothquant(*operands)
    cost = ref.smoothquant_cost(M, N, 4, 1)
    assert counted == pytest.approx(cost.flops, rel=LOWER_ORDER)
    assert cost.nbytes == sum(tensor.nbytes for tensor in (*operands[:2], q, scales))
