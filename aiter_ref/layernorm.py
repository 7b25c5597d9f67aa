"""Layer normalisation over the last axis (Ba, Kiros and Hinton, 2016)."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def layernorm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> torch.Tensor:
    """``(x - mean(x)) / sqrt(var(x) + eps) * weight + bias``, the variance that of the population.

    x [..., n], weight [n], bias [n] bf16/fp16/fp32 -> [..., n] of x's dtype.
    """
    wide = x.float()
    centred = wide - wide.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    normalised = centred * torch.rsqrt(variance + eps)
    return (normalised * weight.float() + bias.float()).to(x.dtype)


def layernorm_cost(m: int, n: int, itemsize: int) -> Cost:
    """Of ``layernorm`` of [m, n]: two sums, a difference and its square; scale, weight, bias."""
    return Cost(7 * m * n, (2 * m * n + 2 * n) * itemsize)
