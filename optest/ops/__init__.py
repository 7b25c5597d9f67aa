"""Operators that run on the tensors' own device: csrc on a CPU, Triton on a GPU.

Importing this package builds nothing and imports no Triton.
"""

from optest.ops import (
    activation,
    attention,
    batched_gemm,
    cache,
    cards,
    collectives,
    conv1d,
    delta_rule,
    fused_moe,
    gemm,
    gemm_quant,
    inductor,
    layernorm,
    moe,
    mx,
    norm,
    norm_quant,
    quant,
    rope,
    routing,
    sampling,
    sdpa,
    topk,
)
from optest.ops.dispatch import own_kernel

__all__ = [
    "activation",
    "attention",
    "batched_gemm",
    "cache",
    "cards",
    "collectives",
    "conv1d",
    "delta_rule",
    "fused_moe",
    "gemm",
    "gemm_quant",
    "inductor",
    "layernorm",
    "moe",
    "mx",
    "norm",
    "norm_quant",
    "own_kernel",
    "quant",
    "rope",
    "routing",
    "sampling",
    "sdpa",
    "topk",
]
