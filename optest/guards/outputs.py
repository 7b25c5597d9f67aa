"""Output buffers of one case, given back to each candidate as the first one found them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.guards import poison

if TYPE_CHECKING:
    from collections.abc import Iterable

_PROBE = 64
_Key = tuple[object, ...]


@dataclass(frozen=True)
class Blanked:
    """A known output that held something and was blanked for the next candidate."""

    tensor: torch.Tensor
    contents: torch.Tensor
    first: torch.Tensor

    def untouched(self) -> bool:
        """Whether it is still blank."""
        seen = poison.bits(self.tensor)
        value = None if seen is None else _value_throughout(seen)
        return value is not None and bool(value == self.first)

    def refill(self) -> None:
        """Put the contents back."""
        with torch.inference_mode():
            self.tensor.copy_(self.contents)

    def blank(self) -> None:
        """Blank it again."""
        seen = poison.bits(self.tensor)
        assert seen is not None
        with torch.inference_mode():
            seen.copy_(self.first.expand(seen.shape))


class Outputs:
    """Buffers that held one value throughout when a candidate of this case was first called.

    Such a buffer (poison from ``torch.empty``, or ``torch.zeros``) is an output. Every later
    candidate gets it back in that state; otherwise it would find in it the right answer of the
    candidate before, and could write half of it. A buffer with contents is an input or an in-out,
    and the test's own to clone.
    """

    def __init__(self) -> None:
        # The tensors are held, so that no later one can come to lie at the same address.
        self._blank: dict[_Key, tuple[torch.Tensor, torch.Tensor]] = {}

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether it is one of these buffers."""
        return _key(tensor) in self._blank

    def poisoned(self, tensor: torch.Tensor) -> bool:
        """Whether it is one that held poison, not zeros that a kernel may add to."""
        known = self._blank.get(_key(tensor))
        return known is not None and bool(known[1] == poison.word(poison.BUFFERS, known[1].dtype))

    def give_back(self, reachable: Iterable[torch.Tensor]) -> list[Blanked]:
        """Blank the known outputs among what the next candidate can reach; learn the new ones.

        Returns those that held something: what an earlier candidate wrote.
        """
        poison.settle()
        blanked = []
        for tensor in reachable:
            known = self._blank.get(_key(tensor))
            if known is not None:
                entry = Blanked(tensor, tensor.detach().clone(), known[1])
                if not entry.untouched():
                    entry.blank()
                    blanked.append(entry)
            elif is_blank(tensor):
                seen = poison.bits(tensor)
                assert seen is not None
                self._blank[_key(tensor)] = tensor, _first(seen).clone()
        return blanked


def _key(tensor: torch.Tensor) -> _Key:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def _first(seen: torch.Tensor) -> torch.Tensor:
    return seen[(0,) * seen.dim()]


def is_blank(tensor: torch.Tensor) -> bool:
    """Whether every element has the same bits; one alone says so only if they are poison."""
    seen = poison.bits(tensor) if tensor.numel() and not _is_expanded(tensor) else None
    if seen is None:
        return False
    row = _first_row(seen)
    if len(set(row)) > 1:
        return False
    if len(row) < seen.numel() and _value_throughout(seen) is None:
        return False
    return seen.numel() > 1 or poison.holding(tensor, poison.BUFFERS) is not None


def _first_row(seen: torch.Tensor) -> list[int]:
    """Its beginning, as numbers: a fifteenth of the time of comparing tensors."""
    while seen.dim() > 1:
        seen = seen[0]
    values: list[int] = seen[:_PROBE].tolist() if seen.dim() else [int(seen)]
    return values


def _value_throughout(seen: torch.Tensor) -> torch.Tensor | None:
    """The one value of all elements; a fifteenth of the time that comparing each takes."""
    least, most = torch.aminmax(seen)
    return least if bool(least == most) else None


def _is_expanded(tensor: torch.Tensor) -> bool:
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return any(size > 1 and stride == 0 for size, stride in pairs)
