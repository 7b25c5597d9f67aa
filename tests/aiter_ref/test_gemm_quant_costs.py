"""Costs of GEMM of 8-bit operands against an instrumented count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from aiter_ref import gemm_quant as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations

M, N, K, B = 48, 256, 384, 3


def codes(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


@pytest.mark.parametrize("batch", [(), (B,)], ids=["one", "batch"])
def test_gemm_a8w8(batch):
    x, w = codes(*batch, M, K), codes(*batch, N, K)
    x_scale, w_scale = torch.rand(*batch, M, 1), torch.rand(*batch, N, 1)
    operands = (x, w, x_scale, w_scale)
    cost = ref.gemm_a8w8_cost(M, N, K, 2, batch=x.numel() // (M * K))
    assert operations(ref.gemm_a8w8, *operands, torch.bfloat16) == cost.flops
    y = ref.gemm_a8w8(*operands, torch.bfloat16)
    assert cost.nbytes == sum(t.nbytes for t in (*operands, y))


def test_blockscale():
    x, w, x_scale, w_scale = codes(M, K), codes(N, K), torch.rand(M, 3), torch.rand(2, 3)
    operands = (x, w, x_scale, w_scale)
    cost = ref.gemm_a8w8_blockscale_cost(M, N, K, 2)
    assert operations(ref.gemm_a8w8_blockscale, *operands, torch.bfloat16) == cost.flops
    y = ref.gemm_a8w8_blockscale(*operands, torch.bfloat16)
    assert cost.nbytes == sum(t.nbytes for t in (*operands, y))
