"""Rotary position embedding (Su et al., 2021), alone and after a norm of each head.

The first ``rotary_dim`` elements of a head are pairs that turn by the angle of their position;
the rest passes. ``neox`` pairs element i with i + rotary_dim / 2, ``gptj`` 2i with 2i + 1.

Row p of a ``cos_sin_cache`` [positions, rotary_dim] holds the cosines of position p, then its
sines.
"""

from __future__ import annotations

import torch

from aiter_ref import norm
from aiter_ref.cost import Cost


def cos_sin_cache(
    positions: int, rotary_dim: int, dtype: torch.dtype, base: float = 10000.0
) -> torch.Tensor:
    """Table of the paper's angles: ``p * base**(-2i / rotary_dim)`` for pair i.

    -> [positions, rotary_dim] ``dtype``.
    """
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float32) / rotary_dim
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * base**-exponents
    return torch.cat((angles.cos(), angles.sin()), -1).to(dtype)


def rope(
    x: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor, *, is_neox: bool
) -> torch.Tensor:
    """Turn the queries or keys of each token by its position.

    x [tokens, heads, head_size] bf16/fp16/fp32, positions [tokens] int64,
    cos_sin [positions, rotary_dim] -> as x.
    """
    return _turned(x.float(), positions, cos_sin, is_neox=is_neox).to(x.dtype)


def norm_rope(
    x: torch.Tensor,
    weight: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    eps: float,
    *,
    is_neox: bool,
) -> torch.Tensor:
    """RMSNorm of each head (Qwen3, 2025), then ``rope``; nothing is rounded between the two.

    x [tokens, heads, head_size], weight [head_size] -> as x.
    """
    normalised = norm.rmsnorm(x.float(), weight, eps)
    return _turned(normalised, positions, cos_sin, is_neox=is_neox).to(x.dtype)


def _turned(
    x: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor, *, is_neox: bool
) -> torch.Tensor:
    rotary_dim = cos_sin.shape[1]
    cos, sin = cos_sin[positions].float()[:, None].chunk(2, -1)
    turning, rest = x[..., :rotary_dim], x[..., rotary_dim:]
    if is_neox:
        first, second = turning.chunk(2, -1)
    else:
        first, second = turning[..., 0::2], turning[..., 1::2]
    pair = (first * cos - second * sin, second * cos + first * sin)
    turned = torch.cat(pair, -1) if is_neox else torch.stack(pair, -1).flatten(-2)
    return torch.cat((turned, rest), -1)


def rope_cost(tokens: int, heads: int, rotary_dim: int, itemsize: int, cache_itemsize: int) -> Cost:
    """Of ``rope`` of all heads (queries' and keys'), in place: 4 products and 2 sums a pair.

    What turns is read and written, a row of the cache and a position are read for each token.
    """
    turning = tokens * heads * rotary_dim
    nbytes = 2 * turning * itemsize + tokens * (rotary_dim * cache_itemsize + 8)
    return Cost(3 * turning, nbytes)


def norm_rope_cost(  # noqa: PLR0917 - the sizes of one shape, in order
    tokens: int, heads: int, head_size: int, rotary_dim: int, itemsize: int, cache_itemsize: int
) -> Cost:
    """Of ``norm_rope`` of all heads, in place: ``rmsnorm``'s 4 an element, and ``rope``.

    Heads are read and written whole, and one weight each for queries and keys is read.
    """
    elements = tokens * heads * head_size
    nbytes = 2 * (elements + head_size) * itemsize + tokens * (rotary_dim * cache_itemsize + 8)
    return Cost(4 * elements + 3 * tokens * heads * rotary_dim, nbytes)
