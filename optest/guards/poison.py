"""Poison: fresh memory holds known bytes, so that what was not written shows.

On the CPU an allocator (``memory``) fills every allocation made while poisoning is on, a
candidate's own included, and puts guards around it. Without a compiler, and on a GPU, torch's
fill-uninitialised mode does the filling for what ``torch.empty`` and its kin return.

No byte is wrong in every dtype: 0xFF is NaN in floats and -1 in integers, where -1 pads tables of
indices; 0x7F is 3.4e38 in bf16 and fp32, 127 in int8. An element that holds the first after a call
on the first, and the second after a call on the second, was written by neither.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from optest import tensors
from optest.guards import memory

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a case's own torch.empty holds: no index, no count, and wrong in floats by any tolerance.
BUFFERS = 0x7F
# What a candidate's allocations hold in its first call, and in the second where that is in doubt.
FIRST, SECOND = 0xFF, 0x7F
_PART = 1 << 17  # elements whose mask stays in the cache
_FEW = 64  # elements that are quicker to look at one by one


@contextmanager
def fresh_memory_poisoned(
    byte: int | None = BUFFERS, *, device: str = "cpu", waits: bool = False
) -> Iterator[None]:
    """Inside, memory that is allocated holds ``byte`` throughout and lies between guards.

    None switches both off; what was allocated under guard stays so. Where it ``waits``, parts of
    large memory hold zeros until they are written or until ``settle``: of what a test allocates
    most is written or freed before a candidate sees it.
    """
    installed = memory.allocator() if device == "cpu" else None
    if installed is None:
        with _fill_mode(on=byte is not None):
            yield
        return
    guard = memory.Guard.NONE if byte is None else memory.wanted()
    before = installed.switch(byte, guard, waits=waits)
    try:
        yield
    finally:
        installed.switch_back(before)


def settle() -> None:
    """Poison what has waited for it and was not touched meanwhile."""
    installed = memory.allocator()
    if installed is not None:
        installed.settle()


@contextmanager
def _fill_mode(*, on: bool) -> Iterator[None]:
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    with warnings.catch_warnings():
        # On for its filling alone: that an operator has no deterministic form is no news here.
        warnings.filterwarnings("ignore", message=".*deterministic.*")
        torch.use_deterministic_algorithms(on or before[0], warn_only=on or before[1])
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def bits(tensor: torch.Tensor) -> torch.Tensor | None:
    """The elements as integers of their size, strides kept; None where there is no such view."""
    lazy = tensor.is_conj() or tensor.is_neg()
    return None if lazy else tensors.bits(tensor.detach())


def fill(tensor: torch.Tensor, byte: int) -> None:
    """Make every byte of a tensor ``byte``; it is not lazily conjugated or negated."""
    seen = tensors.bits(tensor.detach())
    seen.fill_(word(byte, seen.dtype))


def holding(tensor: torch.Tensor, byte: int, *, filled: bool = False) -> torch.Tensor | None:
    """Mask of the elements all of whose bytes are ``byte``; None if there are none.

    Torch's fill mode writes NaN and the largest integer instead; those count for every byte where
    the allocator is not there, unless ``fill`` wrote the byte (``filled``).
    """
    seen = bits(tensor)
    if seen is None or seen.numel() == 0:
        return None
    kinds = not filled and (memory.allocator() is None or tensor.device.type != "cpu")
    if not kinds and not _occurs(seen, word(byte, seen.dtype)):
        return None
    mask = seen == word(byte, seen.dtype)
    if kinds:
        mask |= _filled(tensor).reshape(mask.shape)
    if tensor.is_complex():
        mask = mask.all(-1)
    return mask if bool(mask.any()) else None


def _occurs(seen: torch.Tensor, value: int) -> bool:
    """Whether an element may be ``value``; nearly always none is, and a mask takes far longer."""
    if seen.device.type != "cpu" or not seen.is_contiguous():
        return True
    if seen.numel() <= _FEW:
        return value in seen.reshape(-1).tolist()
    flat = tensors.as_array(seen.reshape(-1))
    sought = flat.dtype.type(value)
    parts = (flat[at : at + _PART] for at in range(0, flat.size, _PART))
    return any(bool((part == sought).any()) for part in parts)


def word(byte: int, kind: torch.dtype) -> int:
    """An integer of dtype ``kind`` all of whose bytes are ``byte``."""
    signed = kind is not torch.uint8
    return int.from_bytes(bytes([byte]) * kind.itemsize, "little", signed=signed)


def _filled(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return torch.view_as_real(tensor).isnan()
    if tensor.is_floating_point():
        return tensor.float().isnan()
    if tensor.dtype is torch.bool or tensor.dtype.itemsize == 1:
        return torch.zeros_like(tensor, dtype=torch.bool)
    return tensor == torch.iinfo(tensor.dtype).max


def mark(tensor: torch.Tensor, mask: torch.Tensor) -> int:
    """Put a value that fails every check where ``mask`` says; returns how many differed from it.

    NaN in floats and the largest integer elsewhere; in dtypes of one byte, which may hold any
    value, the opposite of what is there.
    """
    seen = bits(tensor)
    if seen is None or tensor.shape != mask.shape:
        return 0
    if tensor.is_complex():
        tensor, mask = torch.view_as_real(tensor), mask.unsqueeze(-1)
    with torch.inference_mode():
        if tensor.dtype is torch.bool:
            tensor.logical_xor_(mask)
        elif tensor.dtype.itemsize == 1:
            seen.bitwise_xor_(mask.to(torch.uint8) * 0xC0)
        elif tensor.is_floating_point():
            tensor.masked_fill_(mask, float("nan"))
        else:
            tensor.masked_fill_(mask, torch.iinfo(tensor.dtype).max)
    return int(mask.sum())
