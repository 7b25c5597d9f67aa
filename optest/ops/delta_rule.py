"""Linear attention by the gated delta rule: csrc on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch

from optest.ops.dispatch import kernels


def gated_delta_rule(  # noqa: PLR0913, PLR0917 - the rule has these inputs
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    slots: torch.Tensor,
    *,
    scale: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """``S = exp(g) S; S += k ((v - S^T k) beta)^T; o = scale * S^T q`` token by token, S in place.

    q, k [sequences, tokens, k_heads, key_size], v [sequences, tokens, v_heads, value_size]
    bf16/fp16/fp32 alike, g, beta [sequences, tokens, v_heads] fp32, state [slots, v_heads,
    key_size, value_size] fp32, slots [sequences] int32, all different, -1 for padding (zeros)
    -> as v.
    """
    o = torch.empty_like(v) if out is None else out
    kernels(v, "delta_rule").gated_delta_rule(o, q, k, v, g, beta, state, slots, scale)
    return o
