"""The causal convolution of state-space models, one token at a time."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def causal_conv1d_update(
    x: torch.Tensor,
    state: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    slots: torch.Tensor,
    *,
    silu: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of a depthwise convolution over the last ``width`` tokens of each sequence.

        window = [state[slot], x]       (the tokens before, then this one)
        y      = act(bias + sum over j of window[j] * weight[j]),  act(v) = v / (1 + exp(-v)) or v
        state[slot] = window[1:]

    Source: Gu and Dao, Mamba, 2023, section 3.4 and figure 3 (the convolution before the SSM).

    x [batch, dim], state [slots, dim, width - 1], weight [dim, width], bias [dim] bf16/fp16/fp32,
    slots [batch] int32, all different, -1 for the padding of a batch: y is 0 there.

    Returns:
        y [batch, dim] and the states after it, both of x's dtype; inputs are left as they are.
    """
    after = state.clone()
    y = torch.zeros_like(x)
    here = slots >= 0
    at = slots[here].long()
    window = torch.cat([state[at], x[here].unsqueeze(-1)], dim=-1)
    total = (window.float() * weight.float()).sum(-1) + bias.float()
    y[here] = (total / (1 + torch.exp(-total)) if silu else total).to(x.dtype)
    after[at] = window[..., 1:]
    return y, after


def causal_conv1d_update_cost(
    batch: int, dim: int, width: int, itemsize: int, *, silu: bool
) -> Cost:
    """Of ``causal_conv1d_update``: a product and a sum a tap, the bias being one, silu's 3.

    States are read and written; weights and bias are read once, slots are int32.
    """
    flops = batch * dim * (2 * width + 1 + (3 if silu else 0))
    moved = batch * dim * (2 + 2 * (width - 1)) + dim * (width + 1)
    return Cost(flops, itemsize * moved + 4 * batch)
