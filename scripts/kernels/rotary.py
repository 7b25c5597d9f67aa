"""Rotary embedding, with and without the normalisation of query and key."""

from __future__ import annotations

from functools import partial

import torch

from aiter_ref import rope as ref
from kernels.contest import Contest, Makers, against_torch
from kernels.inputs import random_rows, rows_of
from optest import native

HEADS, KV_HEADS, SIZE, POSITIONS = 32, 8, 128, 8192


def rope(mib: int, *, is_neox: bool, normed: bool) -> Contest:
    tokens, ops = rows_of(mib, (HEADS + KV_HEADS) * SIZE), native.csrc("rope")
    q = random_rows(tokens, HEADS * SIZE).view(tokens, HEADS, SIZE)
    k = random_rows(tokens, KV_HEADS * SIZE).view(tokens, KV_HEADS, SIZE)
    cos_sin = ref.cos_sin_cache(POSITIONS, SIZE, torch.bfloat16)
    at, weight = torch.randint(0, POSITIONS, (tokens,)), torch.ones(SIZE).bfloat16()

    def way(q: torch.Tensor, k: torch.Tensor) -> None:
        for x in (q, k):
            if normed:
                x.copy_(ref.norm_rope(x, weight, at, cos_sin, 1e-6, is_neox=is_neox))
            else:
                x.copy_(ref.rope(x, at, cos_sin, is_neox=is_neox))

    def ours() -> None:
        if normed:
            ops.fused_qk_norm_rope(q, k, weight, weight, at, cos_sin, 1e-6, is_neox)
        else:
            ops.rope(q, k, at, cos_sin, is_neox)

    moved = 2 * (q.nbytes + k.nbytes) + tokens * SIZE * 2
    shape = f"{tokens}x{HEADS}+{KV_HEADS}x{SIZE}"
    return Contest(shape, moved, ours, against_torch(way, q, k))


def contests(mib: int) -> Makers:
    return {
        "rope neox": partial(rope, mib, is_neox=True, normed=False),
        "rope gptj": partial(rope, mib, is_neox=False, normed=False),
        "qk_norm_rope": partial(rope, mib, is_neox=True, normed=True),
    }
