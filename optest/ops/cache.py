"""Write keys and values into a paged cache: csrc on the CPU, Triton on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.ops.dispatch import kernels

if TYPE_CHECKING:
    import torch


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Copy each token to slot ``slot_mapping[token]`` of both caches, in place.

    key, value [tokens, heads, head_size], caches [num_blocks, block_size, heads, head_size] of the
    same dtype, slot_mapping [tokens] int64; a negative slot is padding and skipped.

    Returns:
        ``key_cache`` and ``value_cache``.
    """
    kernels(key, "cache").reshape_and_cache(key, value, key_cache, value_cache, slot_mapping)
    return key_cache, value_cache
