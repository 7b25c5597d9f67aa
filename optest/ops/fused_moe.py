"""The experts of a mixture: sorting, two grouped products around a gated activation, a sum.

csrc on the CPU, Triton on a GPU. Weights are given as ``pack_experts`` makes them, once for a
model. Pairs whose id lies outside of 0 to experts - 1 add nothing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody knows it by

from optest.ops import activation, gemm_quant, moe, quant
from optest.ops.dispatch import csrc, kernels, on_cpu

_PANEL, _DEPTH = 16, 64
_BLOCKS = (16, 32, 64)  # pairs of an expert that a product takes at a time


def pack_experts(w: torch.Tensor) -> torch.Tensor:
    """The experts' weights in the order in which the kernels of their device read them.

    w [experts, n, k] -> on a GPU w itself; on a CPU [experts, ceil(n/16), ceil(k/64) * 1024] of the
    same dtype: panels of 16 rows, in each blocks of 64 k (see ``csrc/moe_gemm_kernels.inl``).
    """
    if w.element_size() == 1:
        return gemm_quant.pack_weight(w)
    if not on_cpu(w):
        return w
    experts, n, k = w.shape
    packed = w.new_empty(experts, -(-n // _PANEL), -(-k // _DEPTH) * _DEPTH * _PANEL)
    csrc("moe_gemm").pack_experts(packed, w)
    return packed


def fused_moe(  # noqa: PLR0913 - the layer's operands
    x: torch.Tensor,
    w_gate_up: torch.Tensor,
    w_down: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    *,
    inter: int,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """``sum of weight * (silu(x @ gate.T) * (x @ up.T)) @ down.T`` over a token's experts.

    x [m, hidden] bf16/fp16/fp32, w_gate_up packed of [experts, 2 * inter, hidden], w_down packed of
    [experts, hidden, inter], weights [m, topk] fp32, ids [m, topk] int32 -> [m, hidden]. What lies
    between the products is rounded to x's dtype.
    """
    y = torch.empty_like(x) if out is None else out
    (m, hidden), topk, experts = x.shape, ids.shape[1], len(w_down)
    home = kernels(x, "moe_gemm")
    order = _sorted(ids, weights, experts)
    gate_up = x.new_empty(m * topk, 2 * inter)
    home.grouped_gemm(gate_up, x, w_gate_up, *order, topk)
    parts = x.new_empty(m * topk, hidden, dtype=torch.float32)
    home.grouped_gemm(parts, activation.silu_and_mul(gate_up), w_down, *order, 1)
    home.moe_combine(y, parts, weights, ids, experts)
    return y


def fused_moe_a8w8(  # noqa: PLR0913, PLR0917 - the layer's operands and their scales
    x: torch.Tensor,
    x_scale: torch.Tensor,
    w_gate_up: torch.Tensor,
    gate_up_scale: torch.Tensor,
    w_down: torch.Tensor,
    down_scale: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    *,
    out: torch.Tensor,
) -> torch.Tensor:
    """``fused_moe`` of int8 or fp8: one scale a token, one an output channel.

    x [m, hidden], x_scale [m, 1], w_gate_up packed of [experts, 2 * inter, hidden], gate_up_scale
    [experts, 2 * inter, 1], w_down packed of [experts, hidden, inter], down_scale
    [experts, hidden, 1], weights [m, topk] fp32, ids [m, topk] int32 -> out [m, hidden] bf16, fp16
    or fp32. What lies between the products is fp32 and quantised a token, to x's dtype.
    """
    (m, hidden), topk, experts = x.shape, ids.shape[1], len(w_down)
    home = kernels(x, "moe_gemm")
    order = _sorted(ids, weights, experts)
    gate_up = x.new_empty(m * topk, gate_up_scale.shape[1], dtype=torch.float32)
    home.grouped_gemm_a8w8(gate_up, x, w_gate_up, x_scale, gate_up_scale, *order, topk)
    q, scales = quant.dynamic_per_token_quant(activation.silu_and_mul(gate_up), quant_dtype=x.dtype)
    parts = x.new_empty(m * topk, hidden, dtype=torch.float32)
    home.grouped_gemm_a8w8(parts, q, w_down, scales, down_scale, *order, 1)
    home.moe_combine(out, parts, weights, ids, experts)
    return out


def by_expert(  # noqa: PLR0913, PLR0917 - the layer's operands, as the others have them
    x: torch.Tensor,
    w_gate_up: torch.Tensor,
    w_down: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """``fused_moe`` as torch offers it: each expert's rows gathered, two linear layers, rows added.

    As ``fused_moe``, but for weights that are not packed.
    """
    total = x.new_zeros(x.shape, dtype=torch.float32)
    for expert in range(len(w_down)):
        tokens, slots = (ids == expert).nonzero(as_tuple=True)
        if len(tokens):
            gate, up = F.linear(x[tokens], w_gate_up[expert]).chunk(2, -1)
            made = F.linear(F.silu(gate) * up, w_down[expert])
            total.index_add_(0, tokens, made * weights[tokens, slots, None])
    return out.copy_(total)


def _sorted(
    ids: torch.Tensor, weights: torch.Tensor, experts: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids, experts of blocks and total; few pairs an expert are padded to few."""
    each = ids.numel() // max(experts, 1)
    block = next((size for size in _BLOCKS if size >= each), _BLOCKS[-1])
    made = moe.moe_sorting(ids, weights, experts, block)
    return made.ids, made.experts, made.total
