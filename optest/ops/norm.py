"""RMSNorm, alone and with the residual sum fused in: csrc on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch

from optest.ops.dispatch import kernels


def rmsnorm(
    x: torch.Tensor, weight: torch.Tensor, eps: float, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """``x / sqrt(mean(x**2) + eps) * weight``: x [m, n], weight [n] bf16/fp16/fp32 -> [m, n]."""
    y = torch.empty_like(x) if out is None else out
    kernels(x, "norm").rmsnorm(y, x, weight, eps)
    return y


def fused_add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """In place: ``residual`` becomes ``x + residual``, then ``x`` its norm.

    x, residual [m, n], weight [n] bf16/fp16/fp32 -> the same ``x`` and ``residual``.
    """
    kernels(x, "norm").fused_add_rmsnorm(x, residual, weight, eps)
    return x, residual
