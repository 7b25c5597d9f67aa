"""Writing keys and values into a paged cache."""

from __future__ import annotations

from functools import partial

import torch

from kernels.contest import Contest, Makers, against_torch
from kernels.inputs import random_rows, rows_of
from optest import native

HEADS, SIZE, BLOCK = 8, 128, 16


def written(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    key_cache.flatten(0, 1)[slots] = key
    value_cache.flatten(0, 1)[slots] = value


def reshape_and_cache(mib: int) -> Contest:
    tokens = rows_of(mib, HEADS * SIZE, 0.5) // BLOCK * BLOCK
    key, value = random_rows(2 * tokens, HEADS * SIZE).view(2, tokens, HEADS, SIZE)
    key_cache, value_cache = torch.zeros(2, tokens // BLOCK, BLOCK, HEADS, SIZE).bfloat16()
    blocks = torch.randperm(tokens // BLOCK)[:, None] * BLOCK
    slots = (blocks + torch.arange(BLOCK)).flatten()
    run, args = native.csrc("cache").reshape_and_cache, (key, value, key_cache, value_cache, slots)
    return Contest(
        f"{tokens}x{HEADS}x{SIZE}",
        2 * (key.nbytes + value.nbytes) + slots.nbytes,
        lambda: run(*args),
        against_torch(written, *args),
    )


def contests(mib: int) -> Makers:
    return {"reshape_and_cache": partial(reshape_and_cache, mib)}
