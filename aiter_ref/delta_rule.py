"""Linear attention with a state that is decayed and corrected: the gated delta rule."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def gated_delta_rule(  # noqa: PLR0917 - the rule has these inputs
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    slots: torch.Tensor,
    *,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rule by its recurrence, token by token; a decode step is the sequence of one token.

        S = exp(g_t) S                             (decay)
        S = S + k_t ((v_t - S^T k_t) beta_t)^T     (what is held under k_t moves towards v_t)
        o_t = scale * S^T q_t

    Source: Yang, Kautz and Hatamizadeh, Gated Delta Networks, 2024, equation 10; its alpha is
    exp(g), its S the transposed one. fp64 inside. q and k come as the model has normalised them;
    each of their heads serves ``v_heads / k_heads`` neighbouring heads of v.

    q, k [sequences, tokens, k_heads, key_size], v [sequences, tokens, v_heads, value_size]
    bf16/fp16/fp32, g, beta [sequences, tokens, v_heads] fp32, state [slots, v_heads, key_size,
    value_size] fp32, slots [sequences] int32, all different, -1 for padding: o is 0 there.

    Returns:
        o as v, and the states after it; inputs are left as they are.
    """
    here = slots >= 0
    at = slots[here].long()
    group = v.shape[2] // max(q.shape[2], 1)
    held = state[at].double()
    queries, keys = (x[here].double().repeat_interleave(group, 2) for x in (q, k))
    values, decays, rates = v[here].double(), g[here].double().exp(), beta[here].double()
    made = torch.zeros(values.shape, dtype=torch.float64, device=v.device)
    for t in range(q.shape[1]):
        key = keys[:, t].unsqueeze(-1)  # [.., key_size, 1]
        held = held * decays[:, t, :, None, None]
        delta = (values[:, t] - (held * key).sum(-2)) * rates[:, t].unsqueeze(-1)
        held = held + key * delta.unsqueeze(-2)
        made[:, t] = (held * queries[:, t].unsqueeze(-1)).sum(-2) * scale
    out, after = torch.zeros_like(v), state.clone()
    out[here] = made.to(v.dtype)
    after[at] = held.to(state.dtype)
    return out, after


def gated_delta_rule_cost(  # noqa: PLR0917 - the sizes of one shape, in order
    sequences: int,
    tokens: int,
    k_heads: int,
    v_heads: int,
    key_size: int,
    value_size: int,
    itemsize: int,
) -> Cost:
    """Of ``gated_delta_rule``: 7 an element of a state for each token of each head.

    A product to decay, two and two for each product with a vector, two for the correction; 3 an
    element of v, and a power. States, fp32, are read and written once.
    """
    steps = sequences * tokens
    flops = steps * v_heads * (7 * key_size * value_size + 3 * value_size + 1)
    operands = itemsize * steps * (2 * k_heads * key_size + 2 * v_heads * value_size)
    states = 4 * 2 * sequences * v_heads * key_size * value_size
    return Cost(flops, operands + states + steps * v_heads * 8 + 4 * sequences)
