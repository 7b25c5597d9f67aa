"""Output buffers of one case, given back to each candidate as the first one found them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch

from optest.guards import poison

if TYPE_CHECKING:
    from collections.abc import Iterable

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PROBE = 64


class Outputs:
    """Buffers that held one value throughout when a candidate of this case was first called.

    Such a buffer (poison from ``torch.empty``, or ``torch.zeros``) is an output. Every later
    candidate gets it back in that state; otherwise it would find in it the right answer of the
    candidate before, and could write half of it. A buffer with contents is an input or an in-out,
    and the test's own to clone.
    """

    def __init__(self) -> None:
        self._blank: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}

    def give_back(self, reachable: Iterable[torch.Tensor]) -> None:
        """Blank the known outputs among what the next candidate can reach; learn the new ones."""
        with torch.no_grad():
            for tensor in reachable:
                known = self._blank.get(id(tensor))
                if known is not None and known[0]() is tensor:
                    _as_bits(tensor).copy_(known[1])
                elif is_blank(tensor):
                    self._learn(tensor)

    def _learn(self, tensor: torch.Tensor) -> None:
        if poison.is_allocators(tensor):
            # The allocator leaves -1 in integers, which may be a right index; the maximum is none.
            poison.fill(tensor)
        first = _as_bits(tensor)[(0,) * tensor.dim()].clone()
        self._blank[id(tensor)] = (weakref.ref(tensor), first)


def is_blank(tensor: torch.Tensor) -> bool:
    """Whether every element has the same bits (of at least two; one value alone says nothing)."""
    if tensor.numel() < 2 or tensor.dtype.itemsize not in _BITS or _is_expanded(tensor):  # noqa: PLR2004
        return False
    bits = _as_bits(tensor)
    first = bits[(0,) * bits.dim()]
    row = bits[(0,) * (bits.dim() - 1)][:_PROBE]
    return bool((row == first).all()) and bool((bits == first).all())


def _as_bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().view(_BITS[tensor.dtype.itemsize])


def _is_expanded(tensor: torch.Tensor) -> bool:
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return any(size > 1 and stride == 0 for size, stride in pairs)
