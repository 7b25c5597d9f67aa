"""Gated activations of a feed-forward layer: the first half of the columns gates the second."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody knows it by

from aiter_ref.cost import Cost


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """``silu(a) * b`` with ``a, b = x[..., :d], x[..., d:]`` and ``silu(a) = a / (1 + exp(-a))``.

    x [..., 2d] bf16/fp16/fp32 -> [..., d] of x's dtype.
    """
    gate, up = x.float().chunk(2, dim=-1)
    return (F.silu(gate) * up).to(x.dtype)


def gelu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """``gelu(a) * b`` with ``gelu(a) = a / 2 * (1 + erf(a / sqrt(2)))``.

    x [..., 2d] bf16/fp16/fp32 -> [..., d] of x's dtype.
    """
    gate, up = x.float().chunk(2, dim=-1)
    return (F.gelu(gate) * up).to(x.dtype)


def gelu_tanh_and_mul(x: torch.Tensor) -> torch.Tensor:
    """``gelu(a) * b`` by its tanh form: ``a / 2 * (1 + tanh(sqrt(2 / pi) * (a + 0.044715 a**3)))``.

    x [..., 2d] bf16/fp16/fp32 -> [..., d] of x's dtype.
    """
    gate, up = x.float().chunk(2, dim=-1)
    return (F.gelu(gate, approximate="tanh") * up).to(x.dtype)


_FLOPS = {"silu": 4, "gelu": 6, "gelu_tanh": 10}


def act_and_mul_cost(m: int, d: int, act: str, itemsize: int) -> Cost:
    """Of a gated activation of [m, 2d].

    The formulas above, operation by operation; a sign is none.
    """
    return Cost(_FLOPS[act] * m * d, 3 * m * d * itemsize)
