"""Costs of microscaling against an instrumented count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from aiter_ref import mx as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations

M, K = 48, 256


def plain(x):
    """As in ``quant_cost``, but that the division is a product; rounding is the code's making."""
    blocks = x.view(M, K // 32, 32)
    scale = blocks.abs().amax(-1, keepdim=True)
    return (blocks * scale).clamp(max=6.0).round()


def test_quant_mxfp4():
    x = torch.randn(M, K)
    cost = ref.quant_mxfp4_cost(M, K, 4)
    # A limit of one side is one operation, of which the count has two.
    assert operations(plain, x) - M * K == pytest.approx(cost.flops)
    codes, scales = ref.quant_mxfp4(x)
    assert cost.nbytes == x.nbytes + codes.nbytes + scales.nbytes


def test_gemm_a4w4():
    n = 40
    numbers, weights = torch.randn(M, K), torch.randn(n, K)
    cost = ref.gemm_a4w4_cost(M, n, K, 2)
    scaled = lambda x, w: (x * x) @ (w * w).t()  # a product an element, whatever with
    assert operations(scaled, numbers, weights) == cost.flops
    operands = (*ref.quant_mxfp4(numbers), *ref.quant_mxfp4(weights))
    assert cost.nbytes == sum(t.nbytes for t in operands) + M * n * 2
