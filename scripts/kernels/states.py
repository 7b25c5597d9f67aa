"""A token of each sequence of models that carry a state: convolutions, the gated delta rule."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812

from kernels.contest import Contest, Makers, against_torch
from kernels.inputs import random_rows, rows_of
from optest import native


def causal_conv1d(mib: int) -> Contest:
    """States of which the channels lie side by side: a quarter of ``mib`` is a token's x."""
    dim, width = 8192, 4
    batch = rows_of(mib, dim, 0.25)
    x, state = random_rows(batch, dim), random_rows(3 * batch, dim).view(batch, 3, dim).mT
    weight, bias = torch.randn(dim, width).bfloat16(), torch.randn(dim).bfloat16()
    slots, out = torch.randperm(batch), torch.empty_like(x)
    run, at = native.csrc("conv1d").causal_conv1d_update, slots.int()

    def way(x: torch.Tensor, state: torch.Tensor, slots: torch.Tensor) -> None:
        window = torch.cat([state[slots], x.unsqueeze(-1)], dim=-1)
        out.copy_(F.silu((window.float() * weight.float()).sum(-1) + bias.float()))
        state.index_copy_(0, slots, window[..., 1:])

    return Contest(
        f"{batch}x{dim}x{width}",
        2 * (x.nbytes + state.nbytes),
        lambda: run(out, x, state, weight, bias, at, True),
        against_torch(way, x, state, slots),
    )


def gated_delta_rule(mib: int) -> Contest:
    """The states of all sequences are ``mib`` together."""
    k_heads, heads, size = 16, 32, 128
    sequences = max(1, mib * 2**20 // (4 * heads * size * size))
    q, k = F.normalize(torch.randn(2, sequences, 1, k_heads, size), dim=-1).bfloat16()
    v = torch.randn(sequences, 1, heads, size).bfloat16()
    g, beta = -torch.rand(sequences, 1, heads), torch.rand(sequences, 1, heads)
    state, out = torch.randn(1, heads, size, size).repeat(sequences, 1, 1, 1), torch.empty_like(v)
    slots, run = torch.randperm(sequences), native.csrc("delta_rule").gated_delta_rule
    at = slots.int()

    def way(state: torch.Tensor, slots: torch.Tensor) -> None:
        query, key = (x[:, 0].float().repeat_interleave(2, 1).unsqueeze(-1) for x in (q, k))
        held = state[slots] * g[:, 0].exp()[..., None, None]
        delta = (v[:, 0].float() - (held * key).sum(-2)) * beta[:, 0].unsqueeze(-1)
        held = held + key * delta.unsqueeze(-2)
        state.index_copy_(0, slots, held)
        out.copy_((held * query).sum(-2).unsqueeze(1))

    return Contest(
        f"{sequences}x{heads}x{size}x{size}",
        2 * state.nbytes,
        lambda: run(out, q, k, v, g, beta, state, at, 1.0),
        against_torch(way, state, slots),
    )


def contests(mib: int) -> Makers:
    return {
        "causal_conv1d": partial(causal_conv1d, mib),
        "gated_delta_rule": partial(gated_delta_rule, mib),
    }
