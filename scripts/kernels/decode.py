"""Attention of one token a sequence, over a paged cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812

from kernels.contest import SHARE_OF_COPY_FP8, Contest, Makers, against_torch
from kernels.inputs import random_rows, rows_of
from kernels.linear import random_codes
from optest import native

SHARE_OF_COPY, OF_EAGER = 0.7, 3.0


def ragged_lengths(sequences: int, longest: int) -> torch.Tensor:
    """From half of the longest on."""
    return torch.randint(longest // 2, longest + 1, (sequences,), dtype=torch.int32)


def mask_of(lengths: torch.Tensor, longest: int) -> torch.Tensor:
    return (torch.arange(longest) < lengths.unsqueeze(1))[:, None, None]


def gather_sdpa(scale: float, v_scale: float) -> Callable[..., torch.Tensor]:
    """Torch's way, both scales taken out of the sums: codes are only widened."""

    def way(
        q: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        tables: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        keys = key_cache[tables].flatten(1, 2).transpose(1, 2).to(q.dtype)
        values = value_cache[tables].flatten(1, 2).transpose(1, 2).to(q.dtype)
        made = F.scaled_dot_product_attention(
            q.unsqueeze(2), keys, values, attn_mask=mask, scale=scale, enable_gqa=True
        )
        return made.squeeze(2) * v_scale

    return way


def pa_decode(mib: int, dtype: torch.dtype) -> Contest:
    """Of Llama-3-8B: 16 sequences; caches of bf16, or of fp8 and as many bytes."""
    sequences, heads, kv_heads, size, block = min(mib, 16), 32, 8, 128, 16
    fp8 = dtype == torch.float8_e4m3fn
    blocks = rows_of(mib, block * kv_heads * size, 1.0 if fp8 else 0.5) // sequences
    tokens, k_scale, v_scale = sequences * blocks * block, 1.0, 1.0
    if fp8:
        caches, k_scale, v_scale = random_codes(2 * tokens, kv_heads * size, dtype), 0.01, 0.02
    else:
        caches = random_rows(2 * tokens, kv_heads * size)
    key_cache, value_cache = caches.view(2, sequences * blocks, block, kv_heads, size)
    tables = torch.randperm(sequences * blocks, dtype=torch.int32).view(sequences, blocks)
    longest = blocks * block
    lengths = ragged_lengths(sequences, longest)
    q = torch.randn(sequences, heads, size).bfloat16()
    out, run = torch.empty_like(q), native.csrc("attention").pa_decode
    operands = (q, key_cache, value_cache, tables)
    scale, mask = size**-0.5, mask_of(lengths, longest)
    return Contest(
        f"{sequences}x{longest}x8x{size}",
        int(lengths.sum()) * kv_heads * size * 2 * dtype.itemsize,
        lambda: run(out, *operands, lengths, scale, k_scale, v_scale),
        against_torch(gather_sdpa(scale * k_scale, v_scale), *operands, mask, eager=OF_EAGER),
        SHARE_OF_COPY_FP8 if fp8 else SHARE_OF_COPY,
    )


def mla_decode(mib: int) -> Contest:
    """Of DeepSeek-V3: 8 sequences of an eighth of the memory, arithmetic being what takes time."""
    sequences, heads, rank, size, block = 8, 128, 512, 576, 64
    blocks = max(rows_of(mib, block * size, 1 / 8) // sequences, 1)
    cache = random_rows(sequences * blocks * block, size).view(-1, block, size)
    tables = torch.randperm(sequences * blocks, dtype=torch.int32).view(sequences, blocks)
    longest = blocks * block
    lengths = ragged_lengths(sequences, longest)
    q = torch.randn(sequences, heads, size).bfloat16()
    out, run = torch.empty_like(q[..., :rank]), native.csrc("attention").mla_decode

    def way(
        q: torch.Tensor, cache: torch.Tensor, tables: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        latents = cache[tables].flatten(1, 2).unsqueeze(1)
        made = F.scaled_dot_product_attention(q.unsqueeze(1), latents, latents, attn_mask=mask)
        return made.squeeze(1)[..., :rank]

    return Contest(
        f"{sequences}x{longest}x{heads}x{size}",
        int(lengths.sum()) * size * 2,
        lambda: run(out, q, cache, tables, lengths, size**-0.5),
        against_torch(way, q, cache, tables, mask_of(lengths, longest)),
        of_copy=0.0,
    )


def contests(mib: int) -> Makers:
    return {
        "pa_decode": partial(pa_decode, mib, torch.bfloat16),
        "pa_decode fp8": partial(pa_decode, mib, torch.float8_e4m3fn),
        "mla_decode": partial(mla_decode, mib),
    }
