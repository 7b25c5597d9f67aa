"""Gated activations ``act(x[:, :d]) * x[:, d:]``: csrc on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch

from optest.ops.dispatch import csrc, on_cpu


def silu_and_mul(x: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """Gate with ``a / (1 + exp(-a))``: x [m, 2d] bf16/fp16/fp32 -> [m, d]."""
    return _act_and_mul(x, out, "silu")


def gelu_and_mul(x: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """Gate with ``a / 2 * (1 + erf(a / sqrt(2)))``: x [m, 2d] bf16/fp16/fp32 -> [m, d]."""
    return _act_and_mul(x, out, "gelu")


def gelu_tanh_and_mul(x: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """Gate with gelu in its tanh form: x [m, 2d] bf16/fp16/fp32 -> [m, d]."""
    return _act_and_mul(x, out, "gelu_tanh")


def _act_and_mul(x: torch.Tensor, out: torch.Tensor | None, kind: str) -> torch.Tensor:
    y = x.new_empty(*x.shape[:-1], x.shape[-1] // 2) if out is None else out
    if on_cpu(x):
        getattr(csrc("activation"), f"{kind}_and_mul")(y, x)
    else:
        from optest.ops.triton import activation  # Triton loads where a GPU needs it

        activation.act_and_mul(y, x, kind)
    return y
