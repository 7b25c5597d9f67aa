"""Triton kernels of rotary position embedding in place, alone and after a norm of each head."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import block_of, cast, load_fp32, require, require_rows


@triton.jit
def _angles(positions, cos_sin, token, half, HALF: tl.constexpr):
    """Cosines and sines of the token, [HALF] each."""
    pair = tl.arange(0, HALF)
    row = cos_sin + tl.load(positions + token) * 2 * half
    return load_fp32(row + pair, pair < half), load_fp32(row + half + pair, pair < half)


@triton.jit
def _places(half, NEOX: tl.constexpr, HALF: tl.constexpr):
    """Columns of both elements of each pair."""
    pair = tl.arange(0, HALF)
    if NEOX:
        first, second = pair, pair + half
    else:
        first, second = 2 * pair, 2 * pair + 1
    return first[None, :], second[None, :]


@triton.jit
def _turn(rows, mine, cos, sin, half, NEOX: tl.constexpr, HALF: tl.constexpr):
    """Turn the heads that ``rows`` [heads, 1] point to, of which those of ``mine`` are there."""
    first, second = _places(half, NEOX, HALF)
    inside = mine & (tl.arange(0, HALF) < half)[None, :]
    a, b = load_fp32(rows + first, inside), load_fp32(rows + second, inside)
    dtype: tl.constexpr = rows.dtype.element_ty
    tl.store(rows + first, cast(a * cos - b * sin, dtype), mask=inside)
    tl.store(rows + second, cast(b * cos + a * sin, dtype), mask=inside)


@triton.jit
def _norm_and_turn(
    rows, mine, weight, cos, sin, size, half, eps,
    NEOX: tl.constexpr, HALF: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, SIZE)[None, :]
    whole = load_fp32(rows + column, mine & (column < size))
    inverse = 1.0 / tl.sqrt(tl.sum(whole * whole, 1) / size + eps)[:, None]
    first, second = _places(half, NEOX, HALF)
    pairs = (tl.arange(0, HALF) < half)[None, :]
    a = load_fp32(rows + first, mine & pairs) * inverse * load_fp32(weight + first, pairs)
    b = load_fp32(rows + second, mine & pairs) * inverse * load_fp32(weight + second, pairs)
    dtype: tl.constexpr = rows.dtype.element_ty
    tl.store(rows + first, cast(a * cos - b * sin, dtype), mask=mine & pairs)
    tl.store(rows + second, cast(b * cos + a * sin, dtype), mask=mine & pairs)
    rest = (column >= 2 * half) & (column < size)
    passed = whole * inverse * load_fp32(weight + column, rest)
    tl.store(rows + column, cast(passed, dtype), mask=mine & rest)


@triton.jit
def rope_kernel(
    x, positions, cos_sin, heads, half, x_token, x_head,
    NEOX: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Program (i, j) turns heads j * HEADS and on of token i."""
    token = tl.program_id(0).to(tl.int64)
    cos, sin = _angles(positions, cos_sin, token, half, HALF)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    rows = x + token * x_token + head * x_head
    _turn(rows, head < heads, cos[None, :], sin[None, :], half, NEOX, HALF)


@triton.jit
def norm_rope_kernel(
    x, weight, positions, cos_sin, heads, size, half, eps, x_token, x_head,
    NEOX: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Program (i, j) normalises and turns heads j * HEADS and on of token i."""
    token = tl.program_id(0).to(tl.int64)
    cos, sin = _angles(positions, cos_sin, token, half, HALF)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    rows = x + token * x_token + head * x_head
    _norm_and_turn(
        rows, head < heads, weight, cos[None, :], sin[None, :], size, half, eps, NEOX, HALF, SIZE
    )


def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    is_neox: bool,
) -> None:
    """Turn q [tokens, heads, head_size] and k [tokens, kv_heads, head_size] in place.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    half = _half(q, k, positions, cos_sin)
    block = block_of(half)
    for x in (q, k):
        tokens, heads, _ = x.shape
        if x.numel():
            tile = block_of(heads, largest=max(1, 1024 // block))
            rope_kernel[(tokens, triton.cdiv(heads, tile))](
                x, positions, cos_sin, heads, half, x.stride(0), x.stride(1),
                NEOX=is_neox, HEADS=tile, HALF=block,
            )  # fmt: skip


def fused_qk_norm_rope(
    q: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    eps: float,
    is_neox: bool,
) -> None:
    """Normalise each head of q and k by its weight [head_size], then turn it, in place.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    half = _half(q, k, positions, cos_sin)
    size = q.shape[2]
    require_rows("q_weight", q_weight, (size,))
    require_rows("k_weight", k_weight, (size,))
    block = block_of(size)
    for x, weight in ((q, q_weight), (k, k_weight)):
        tokens, heads, _ = x.shape
        if x.numel():
            tile = block_of(heads, largest=max(1, 2048 // block))
            norm_rope_kernel[(tokens, triton.cdiv(heads, tile))](
                x, weight, positions, cos_sin, heads, size, half, eps, x.stride(0), x.stride(1),
                NEOX=is_neox, HEADS=tile, HALF=block_of(half), SIZE=block,
            )  # fmt: skip


def _half(q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor) -> int:
    """Pairs that turn in each head."""
    require(q.dim() == 3, f"q: shape {tuple(q.shape)}, expected [tokens, heads, head_size].")
    tokens, _, size = q.shape
    require(
        k.dim() == 3 and k.shape[0] == tokens and k.shape[2] == size and k.dtype is q.dtype,
        f"k: {k.dtype} of shape {tuple(k.shape)}, expected {q.dtype} of ({tokens}, kv_heads, "
        f"{size}) as of q.",
    )
    require_rows("q", q, tuple(q.shape))
    require_rows("k", k, tuple(k.shape))
    require(
        positions.dtype is torch.int64
        and positions.is_contiguous()
        and tuple(positions.shape) == (tokens,),
        f"positions: {positions.dtype} of shape {tuple(positions.shape)}, expected contiguous "
        f"int64 of ({tokens},).",
    )
    require(
        cos_sin.dim() == 2
        and cos_sin.is_contiguous()
        and cos_sin.shape[1] % 2 == 0
        and cos_sin.shape[1] <= size,
        f"cos_sin: shape {tuple(cos_sin.shape)}, expected contiguous (positions, rotary_dim), the "
        f"latter even and at most {size}.",
    )
    return cos_sin.shape[1] // 2
