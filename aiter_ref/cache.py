"""Writing keys and values into a paged cache."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Copy each token to its slot, in place.

    Slot ``s`` is ``cache[s // block_size, s % block_size]``. Tokens whose slot is negative
    (padding) are skipped. Slots must be distinct: which of two tokens stays is not defined.

    key, value [tokens, heads, head_size], caches [num_blocks, block_size, heads, head_size] of the
    same dtype, slot_mapping [tokens] int64.

    Raises:
        IndexError: a slot lies beyond the cache (from torch).
    """
    keep = slot_mapping >= 0
    slots = slot_mapping[keep]
    block_size = key_cache.shape[1]
    where = (slots // block_size, slots % block_size)
    key_cache[where] = key[keep]
    value_cache[where] = value[keep]


def reshape_and_cache_cost(tokens: int, valid: int, width: int, itemsize: int) -> Cost:
    """Of ``reshape_and_cache``: nothing is computed; keys and values are read and written.

    ``valid`` of the ``tokens`` slots are not negative; ``width`` is heads times head size.
    """
    slots = 8 * tokens
    return Cost(0, 2 * 2 * valid * width * itemsize + slots)
