"""Counts of operations and bytes against what an instrumented run of the formula counts."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch

from aiter_ref import activation, cache, gemm, norm, quant

sys.path.append(str(Path(__file__).parent))
from counting import operations

M, N, K, B = 48, 256, 96, 3
# Terms a row, as the root of a norm, are left out of the formulas: a share of 1 / N each.
LOWER_ORDER = 4 / N


def silu(gate, up):
    return gate / (torch.exp(-gate) + 1) * up


def gelu(gate, up):
    return gate * 0.5 * (torch.erf(gate * math.sqrt(0.5)) + 1) * up


def gelu_tanh(gate, up):
    cube = gate * gate * gate
    inner = (gate + cube * 0.044715) * math.sqrt(2 / math.pi)
    return gate * 0.5 * (torch.tanh(inner) + 1) * up


def test_products():
    x, w = torch.randn(M, K), torch.randn(N, K)
    assert operations(gemm.gemm_a16w16, x, w, torch.float32) == gemm.gemm_cost(M, N, K, 4).flops
    x, w = torch.randn(B, M, K), torch.randn(B, N, K)
    counted = operations(gemm.batched_gemm, x, w, torch.float32)
    assert counted == gemm.gemm_cost(M, N, K, 4, batch=B).flops


@pytest.mark.parametrize(
    ("reference", "cost", "count"),
    [
        (lambda x, w, r: norm.rmsnorm(x, w, 1e-5), norm.rmsnorm_cost, 2),
        (lambda x, w, r: norm.fused_add_rmsnorm(x, r, w, 1e-5), norm.fused_add_rmsnorm_cost, 4),
    ],
    ids=["rmsnorm", "fused_add_rmsnorm"],
)
def test_norms(reference, cost, count):
    x, weight, residual = torch.randn(M, N), torch.randn(N), torch.randn(M, N)
    counted = operations(reference, x, weight, residual)
    assert counted == pytest.approx(cost(M, N, 4).flops, rel=LOWER_ORDER)
    assert cost(M, N, 4).nbytes == count * x.nbytes + weight.nbytes


@pytest.mark.parametrize("formula", [silu, gelu, gelu_tanh], ids=lambda formula: formula.__name__)
def test_activations(formula):
    gate, up = torch.randn(M, N), torch.randn(M, N)
    cost = activation.act_and_mul_cost(M, N, formula.__name__, 4)
    assert operations(formula, gate, up) == cost.flops
    assert cost.nbytes == gate.nbytes + up.nbytes + M * N * 4


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_quantisation(dynamic):
    x = torch.randn(M, N)
    if dynamic:
        q, scales = quant.dynamic_per_token_quant(x, torch.int8)
        counted = operations(quant.dynamic_per_token_quant, x, torch.int8)
    else:
        scales = torch.ones(1)
        q = quant.static_per_tensor_quant(x, scales, torch.int8)
        counted = operations(quant.static_per_tensor_quant, x, scales, torch.int8)
    cost = quant.quant_cost(x, torch.int8, scales, dynamic=dynamic)
    # Rounding comes with the cast that stores the value.
    assert counted - M * N == pytest.approx(cost.flops, rel=LOWER_ORDER)
    assert cost.nbytes == x.nbytes + q.nbytes + scales.nbytes


def test_a_cache_write_moves_what_is_valid():
    heads, size, tokens, valid = 2, 8, 5, 3
    key = torch.randn(tokens, heads, size)
    slots = torch.tensor([0, 1, -1, 2, -1])
    cost = cache.reshape_and_cache_cost(tokens, valid, heads * size, 4)
    assert cost == (0, 4 * key[:valid].nbytes + slots.nbytes)
