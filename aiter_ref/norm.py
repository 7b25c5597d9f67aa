"""Root-mean-square normalisation (Zhang and Sennrich, 2019), alone and after a residual sum."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last axis.

    x [..., n], weight [n] bf16/fp16/fp32 -> [..., n] of x's dtype.
    """
    return _normalised(x.float(), weight, eps).to(x.dtype)


def fused_add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add the residual, keep the sum as the next residual, normalise what was kept.

    The sum is rounded to x's dtype once, and that is what is normalised: the result is the
    ``rmsnorm`` of the residual that goes on, as serving engines define the fused operator.

    x, residual [..., n], weight [n] bf16/fp16/fp32 -> normalised and sum, [..., n] of x's dtype.
    """
    total = (x.float() + residual.float()).to(x.dtype)
    return rmsnorm(total, weight, eps), total


def _normalised(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * weight.float()


def rmsnorm_cost(m: int, n: int, itemsize: int) -> Cost:
    """Of ``rmsnorm`` of [m, n]: square and add; times the inverse root, times the weight."""
    return Cost(4 * m * n, (2 * m * n + n) * itemsize)


def fused_add_rmsnorm_cost(m: int, n: int, itemsize: int) -> Cost:
    """Of ``fused_add_rmsnorm`` of [m, n]: one more addition, two more matrices."""
    return Cost(5 * m * n, (4 * m * n + n) * itemsize)
