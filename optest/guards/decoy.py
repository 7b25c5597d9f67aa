"""A call on inputs that are nearly those of the next: an answer kept by samples is then wrong.

A few interior elements of each floating-point input are changed by a lot, the candidate is called,
and the inputs are given back. Whoever knows its inputs by their corners or by every 37th element
takes the next call for this one, and hands out an answer that is grossly wrong in places.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from optest.tensors import Snapshot

_SHARE = 16
_LEAST = 64
_FACTOR = -5.0
_SCALED = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def call(candidate: Callable[[], Any], snapshot: Snapshot) -> None:
    """Call ``candidate`` on changed inputs; what it returns or raises says nothing here.

    Args:
        candidate: calls the kernel with its arguments.
        snapshot: every tensor that it can reach, as they are; all are given back.
    """
    try:
        changed = sum(_change(tensor) for tensor in snapshot.tensors)
        if changed:
            # The values may be outside of what it accepts.
            with contextlib.suppress(Exception):
                candidate()
    finally:
        snapshot.restore()


def _change(tensor: torch.Tensor) -> int:
    """Scale the middle of the middle row; 0 for tensors that are small or no floats."""
    if tensor.dtype not in _SCALED or tensor.numel() < _LEAST or tensor.is_neg():
        return 0
    row = tensor.detach()
    while row.dim() > 1:
        row = row[row.shape[0] // 2]
    width = max(1, row.numel() // _SHARE)
    middle = (row.numel() - width) // 2
    with torch.inference_mode():
        row[middle : middle + width] *= _FACTOR
    return width
