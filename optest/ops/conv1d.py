"""The causal convolution of state-space models: csrc on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch

from optest.ops.dispatch import kernels


def causal_conv1d_update(  # noqa: PLR0913 - a convolution and where its past is kept
    x: torch.Tensor,
    state: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    slots: torch.Tensor,
    *,
    silu: bool = True,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Convolve one token of each sequence with those before it; its state moves on in place.

    x [batch, dim], state [slots, dim, width - 1] of any strides, weight [dim, width], bias [dim]
    bf16/fp16/fp32 alike, slots [batch] int32, all different, -1 for padding (zeros) -> as x.
    """
    y = torch.empty_like(x) if out is None else out
    kernels(x, "conv1d").causal_conv1d_update(y, x, state, weight, bias, slots, silu)
    return y
