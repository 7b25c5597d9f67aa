"""Outputs of two calls side by side: could they tell, and are they the same?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from optest.tensors import bits, same_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENOUGH = 16
_MOST_BYTES = 256 << 20


def telling(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the values could show that a call looked at its inputs: enough, and not all alike."""
    if sum(tensor.nbytes for tensor in tensors) > _MOST_BYTES:
        return False
    return any(tensor.numel() >= _ENOUGH and _varied(tensor) for tensor in tensors)


def same(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    """Whether two calls gave the same bits throughout."""
    return len(a) == len(b) and all(same_bytes(x, y) for x, y in zip(a, b, strict=True))


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors' present values in memory of their own."""
    return [tensor.detach().clone() for tensor in tensors]


def _varied(tensor: torch.Tensor) -> bool:
    flat = bits(tensor.detach().resolve_conj().resolve_neg().contiguous()).reshape(-1)
    least, most = torch.aminmax(flat)  # a tenth of the time that comparing each takes
    return bool(least != most)
