"""Triton kernel that writes keys and values into a paged cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import block_of, require

if TYPE_CHECKING:
    from collections.abc import Sequence


@triton.jit
def reshape_and_cache_kernel(
    key, value, key_cache, value_cache, slots,
    width, block_size, key_row, value_row,
    key_block, key_slot, value_block, value_slot, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program (i, j) copies part j of token i to its slot; a negative slot is padding."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token)
    if slot >= 0:
        columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = columns < width
        block = slot // block_size
        within = slot % block_size
        key_part = tl.load(key + token * key_row + columns, mask=inside)
        tl.store(key_cache + block * key_block + within * key_slot + columns, key_part, mask=inside)
        value_part = tl.load(value + token * value_row + columns, mask=inside)
        value_at = value_cache + block * value_block + within * value_slot + columns
        tl.store(value_at, value_part, mask=inside)


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Copy key, value [tokens, heads, head_size] to [blocks, block_size, heads, head_size].

    Slots beyond the cache are not looked for: that would wait for the device.

    Raises:
        UsageError: shapes, dtypes or strides that do not fit each other.
    """
    tokens, heads, head_size = _shape_of("key", key, 3)
    _blocks, block_size, *_rest = _shape_of("key_cache", key_cache, 4)
    for name, tensor, lead in (
        ("key", key, (tokens,)),
        ("value", value, (tokens,)),
        ("key_cache", key_cache, tuple(key_cache.shape[:2])),
        ("value_cache", value_cache, tuple(key_cache.shape[:2])),
    ):
        _require_heads(name, tensor, (*lead, heads, head_size), key.dtype)
    require(
        tuple(slot_mapping.shape) == (tokens,)
        and slot_mapping.dtype is torch.int64
        and slot_mapping.is_contiguous(),
        f"slot_mapping: {slot_mapping.dtype} of shape {tuple(slot_mapping.shape)}, "
        f"expected contiguous int64 of shape ({tokens},).",
    )
    width = heads * head_size
    if tokens and width:
        block = block_of(width, largest=1024)
        reshape_and_cache_kernel[(tokens, triton.cdiv(width, block))](
            key, value, key_cache, value_cache, slot_mapping,
            width, block_size, key.stride(0), value.stride(0),
            key_cache.stride(0), key_cache.stride(1), value_cache.stride(0), value_cache.stride(1),
            BLOCK=block,
        )  # fmt: skip


def _shape_of(name: str, tensor: torch.Tensor, dims: int) -> Sequence[int]:
    require(tensor.dim() == dims, f"{name}: shape {tuple(tensor.shape)}, expected {dims} axes.")
    return tensor.shape


def _require_heads(
    name: str, tensor: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    heads, head_size = shape[-2:]
    together = heads <= 1 or tensor.stride(-2) == head_size
    together = together and (head_size <= 1 or tensor.stride(-1) == 1)
    require(
        tuple(tensor.shape) == shape and tensor.dtype is dtype and together,
        f"{name}: {tensor.dtype} of shape {tuple(tensor.shape)} with strides {tensor.stride()}, "
        f"expected {dtype} of shape {shape} with the heads of a token side by side.",
    )
