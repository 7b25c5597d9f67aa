"""Poison: fresh memory holds a value that no right answer has, so that what was not written shows.

On the CPU an allocator (csrc/poison.cpp) fills every allocation made while poisoning is on, a
candidate's own included, with 0xFF bytes. Without a compiler, and on a GPU, torch's
fill-uninitialised mode does the same for what ``torch.empty`` and its kin return.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from optest import native
from optest.errors import BuildError
from optest.log import once

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTE = 0xFF


@functools.cache
def _allocator() -> ctypes.CDLL | None:
    """The poisoning allocator, installed; None where csrc cannot be built."""
    if not native.available():
        return None
    try:
        native.csrc("poison")
        library = ctypes.CDLL(str(native.library_path("poison")))
    except (BuildError, OSError) as error:
        once(f"the poisoning allocator is not available, torch's fill mode stands in: {error}")
        return None
    library.optest_poison_install()
    return library


@contextmanager
def fresh_memory_poisoned(*, on: bool = True, device: str = "cpu") -> Iterator[None]:
    """Inside, memory that is allocated holds poison (or, with ``on=False``, no longer does)."""
    library = _allocator() if device == "cpu" else None
    if library is None:
        with _fill_mode(on=on):
            yield
        return
    before = library.optest_poison_set(int(on))
    try:
        yield
    finally:
        library.optest_poison_set(before)


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


def fill(tensor: torch.Tensor) -> None:
    """Overwrite with poison: NaN in floats, the largest value in integers, 0xFF otherwise."""
    with torch.no_grad():
        if tensor.dtype in _INTEGERS:
            tensor.fill_(torch.iinfo(tensor.dtype).max)
        elif tensor.dtype.is_floating_point and tensor.dtype.itemsize > 1:
            tensor.fill_(float("nan"))
        else:
            tensor.view(torch.uint8).fill_(_BYTE)


_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def is_allocators(tensor: torch.Tensor) -> bool:
    """Whether the first element holds what the poisoning allocator leaves there."""
    first = tensor.detach()[(0,) * tensor.dim()].reshape(1)
    return bool((first.view(torch.uint8) == _BYTE).all())


def left_in(tensor: torch.Tensor) -> torch.Tensor | None:
    """Mask of the elements that still hold what fresh memory is filled with; None if none do.

    Formats in which poison is a plain value (8-bit integers, booleans, fp8 without it) are not
    judged: there a half-written output is left to the test's own comparison.
    """
    if tensor.numel() == 0 or tensor.dtype.itemsize < 2:  # noqa: PLR2004 - bytes of the narrowest judged type
        return None
    if tensor.is_floating_point():
        mask = torch.isnan(tensor)
    elif tensor.dtype in _INTEGERS:
        filled = torch.iinfo(tensor.dtype).max
        mask = (tensor == -1) | (tensor == filled)
    else:
        return None
    return mask if bool(mask.any()) else None


def carry_over(mask: torch.Tensor, data: torch.Tensor) -> int:
    """Put poison where the poisoned call left it and ``data`` holds something; returns how many.

    ``data`` comes from a later call, whose memory may still have held the right answer of an
    earlier one; an element that a call on poisoned memory did not write was never computed.
    """
    if data.shape != mask.shape:
        return 0
    still = left_in(data)
    stolen = mask if still is None else mask & ~still
    count = int(stolen.sum())
    if count:
        poison = torch.empty((), dtype=data.dtype, device=data.device)
        fill(poison)
        with torch.no_grad():
            data.masked_fill_(stolen, poison.item())
    return count
