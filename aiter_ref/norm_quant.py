"""Dynamic per-token quantisation with what comes before it: a norm, or a scale a channel.

What is quantised is never rounded to 16 bits on the way. Scales and codes are by the convention of
``aiter_ref.quant``.
"""

from __future__ import annotations

import torch

from aiter_ref import norm, quant
from aiter_ref.cost import Cost


def fused_add_rmsnorm_quant(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    quant_dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Add the residual, keep the sum as the next residual, quantise the RMSNorm of what was kept.

    x, residual [m, n], weight [n] bf16/fp16/fp32
        -> q [m, n] ``quant_dtype``, scales [m, 1] fp32, sum [m, n] of x's dtype.
    """
    total = (x.float() + residual.float()).to(x.dtype)
    q, scales = quant.dynamic_per_token_quant(norm.rmsnorm(total.float(), weight, eps), quant_dtype)
    return q, scales, total


def smoothquant(
    x: torch.Tensor, smooth_scale: torch.Tensor, quant_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Even the channels out (SmoothQuant, Xiao et al., 2023), then quantise each token.

    The product with ``smooth_scale`` (the inverse of what went into the weights) is one of fp32.

    x [m, n] bf16/fp16/fp32, smooth_scale [n] fp32 -> q [m, n] ``quant_dtype``, scales [m, 1] fp32.
    """
    return quant.dynamic_per_token_quant(x.float() * smooth_scale.float(), quant_dtype)


def fused_add_rmsnorm_quant_cost(m: int, n: int, itemsize: int, quant_itemsize: int) -> Cost:
    """Of ``fused_add_rmsnorm_quant`` of [m, n]: its norm's 5 and its quantisation's 5 an element.

    Two matrices are read, one and the codes are written.
    """
    nbytes = m * n * (3 * itemsize + quant_itemsize) + n * itemsize + 4 * m
    return Cost(10 * m * n, nbytes)


def smoothquant_cost(m: int, n: int, itemsize: int, quant_itemsize: int) -> Cost:
    """Of ``smoothquant`` of [m, n]: a product and the quantisation's 5 an element."""
    return Cost(6 * m * n, m * n * (itemsize + quant_itemsize) + 4 * n + 4 * m)
