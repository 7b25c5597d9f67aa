"""The experts of a mixture; their weights are cold: each round's copies drop them."""

from __future__ import annotations

from functools import partial

import torch

from kernels import scaling
from kernels.contest import OF_INDUCTOR, SHARE_OF_COPY, Contest, Makers, Rival
from kernels.inputs import random_rows
from kernels.linear import FEW, of_bf16, random_codes
from optest import ops

HIDDEN, INTER, TOPK = 2048, 768, 8  # of Qwen3-30B-A3B
ROWS = (FEW, 512)


def routed(tokens: int, experts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and ids; some experts are more popular than others, a token takes none twice."""
    chosen = (torch.randn(tokens, experts) + torch.randn(experts)).softmax(-1).topk(TOPK)
    return chosen.values, chosen.indices.int()


Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def in_bf16(tokens: int, experts: int) -> Operands:
    """The tokens and the two weights, not packed."""
    gate_up = random_rows(experts * 2 * INTER, HIDDEN).view(experts, 2 * INTER, HIDDEN)
    down = random_rows(experts * HIDDEN, INTER).view(experts, HIDDEN, INTER)
    return random_rows(tokens, HIDDEN), gate_up, down


def by_expert(
    operands: Operands, weights: torch.Tensor, ids: torch.Tensor, at_least: float
) -> dict[str, Rival]:
    """One expert after another, in bf16 by oneDNN."""
    out = torch.empty_like(operands[0])
    call = partial(ops.fused_moe.by_expert, *operands, weights, ids, out)
    return {"bf16": Rival(call, at_least)}


def moved(ids: torch.Tensor, element: int) -> int:
    """Bytes of the experts that are asked, and of the tokens: read, written."""
    asked = int(ids.flatten().bincount().count_nonzero())
    return asked * 3 * HIDDEN * INTER * element + len(ids) * HIDDEN * (element + 2)


def fused_moe(mib: int, tokens: int) -> Contest:
    """Inductor does not compile a loop over experts that depends on who is asked."""
    experts = max(TOPK, mib // 8)
    weights, ids = routed(tokens, experts)
    x, *layers = operands = in_bf16(tokens, experts)
    gate_up, down = map(ops.fused_moe.pack_experts, layers)
    out = torch.empty_like(x)
    return Contest(
        f"{tokens}x{HIDDEN}x{INTER} of {experts}",
        moved(ids, 2),
        lambda: ops.fused_moe.fused_moe(x, gate_up, down, weights, ids, inter=INTER, out=out),
        by_expert(operands, weights, ids, OF_INDUCTOR),
        SHARE_OF_COPY if tokens <= FEW else 0.0,
    )


def fused_moe_a8w8(mib: int, kind: str, tokens: int) -> Contest:
    """Held against bf16, as products of quantised operands are."""
    dtype, experts = scaling.WAYS[kind][0], max(TOPK, mib // 8)
    weights, ids = routed(tokens, experts)
    x, out = random_codes(tokens, HIDDEN, dtype), torch.empty(tokens, HIDDEN).bfloat16()
    pack = ops.fused_moe.pack_experts
    gate_up = random_codes(experts * 2 * INTER, HIDDEN, dtype).view(experts, 2 * INTER, HIDDEN)
    down = random_codes(experts * HIDDEN, INTER, dtype).view(experts, HIDDEN, INTER)
    of_x, of_gate_up, of_down = (torch.rand(*w.shape[:-1], 1) / 100 for w in (x, gate_up, down))
    operands = (x, of_x, pack(gate_up), of_gate_up, pack(down), of_down, weights, ids)
    return Contest(
        f"{tokens}x{HIDDEN}x{INTER} of {experts}",
        moved(ids, 1),
        lambda: ops.fused_moe.fused_moe_a8w8(*operands, out=out),
        by_expert(in_bf16(tokens, experts), weights, ids, of_bf16(tokens)),
        of_copy=0.0,
    )


def contests(mib: int) -> Makers:
    plain = {f"fused_moe bf16 {m}": partial(fused_moe, mib, m) for m in ROWS}
    quantised = {
        f"fused_moe_a8w8 {kind} {m}": partial(fused_moe_a8w8, mib, kind, m)
        for kind in scaling.WAYS
        for m in ROWS
    }
    return {**plain, **quantised}
