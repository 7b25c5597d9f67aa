"""Stretches of a pair, decoded block by block into scratch that never grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from optest.checking.decode import decode_into
from optest.checking.rule import Values
from optest.tensors import as_array

if TYPE_CHECKING:
    from optest.checking.domain import Domain
    from optest.checking.pair import Pair

_SHORT = 2


class BlockReader:
    """Decodes stretches of a pair into buffers of its own, which the next read overwrites."""

    def __init__(self, pair: Pair, domain: Domain, block: int) -> None:
        self._size = size = min(block, pair.positions) * pair.pack
        self._pair = pair
        self._flat = pair.a.ndim == 1
        self._flags: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None
        self._uint64 = (pair.a.dtype == torch.uint64, pair.b.dtype == torch.uint64)
        self._buffers = [
            None
            if self._usable(side, domain.compute)
            else torch.empty(size, dtype=domain.compute, device=side.device)
            for side in (pair.a, pair.b)
        ]

    def _usable(self, side: torch.Tensor, compute: torch.dtype) -> bool:
        return side.dtype == compute and side.is_contiguous() and self._flat

    @property
    def device(self) -> torch.device:
        """Where the pair is."""
        return self._pair.a.device

    @property
    def buffers(self) -> list[torch.Tensor | None]:
        """What reference and candidate are decoded into; None where they need none."""
        return self._buffers

    def values_in(self, positions: int) -> int:
        """Values in the longest read of ``positions``."""
        return min(positions, self._pair.positions) * self._pair.pack

    def read(self, start: int, stop: int) -> Values:
        """The values of positions ``start`` to ``stop``."""
        a_buffer, b_buffer = self._buffers
        pack = self._pair.pack
        if self._flat:
            a = self._decoded(self._pair.a[start:stop], a_buffer)
            b = self._decoded(self._pair.b[start:stop], b_buffer)
            return Values(a, b, self._uint64)
        assert a_buffer is not None
        assert b_buffer is not None
        for position, a, b in self._pair.rectangles(start, stop):
            part = slice((position - start) * pack, (position - start + a.numel()) * pack)
            decode_into(a, a_buffer[part])
            decode_into(b, b_buffer[part])
        size = (stop - start) * pack
        return Values(a_buffer[:size], b_buffer[:size], self._uint64)

    def equal_values(self, start: int, stop: int) -> torch.Tensor | None:
        """Those of the reference where both sides hold the same bits.

        None where they do not, and where asking costs as much as comparing: it is cheap for short
        dtypes, read eight bytes at a time.
        """
        words = self.words(start, stop)
        return self.reference(start, stop) if words is not None and torch.equal(*words) else None

    def words(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Both sides as integers of eight bytes; None where the dtype is not short, or strided."""
        a, b = self._pair.a, self._pair.b
        if not (self._flat and a.is_contiguous() and b.is_contiguous() and a.dtype == b.dtype):
            return None
        a, b = a[start:stop], b[start:stop]
        if a.dtype.itemsize > _SHORT or not (_in_words(a) and _in_words(b)):
            return None
        return a.view(torch.int64), b.view(torch.int64)

    def differing(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
        """Places of the words that differ; None where there is no quick way to find them."""
        if self.device.type != "cpu":
            return None
        if self._flags is None:
            self._flags = np.empty(self._size, dtype=np.bool_)
        # NumPy's: torch takes four times as long to compare words, three times to find them.
        flags = np.not_equal(as_array(a), as_array(b), out=self._flags[: a.numel()])
        return torch.from_numpy(np.flatnonzero(flags))

    def reference(self, start: int, stop: int) -> torch.Tensor:
        """The values of the reference alone, of a flat pair."""
        return self._decoded(self._pair.a[start:stop], self._buffers[0])

    def few(self, words: tuple[torch.Tensor, torch.Tensor], places: torch.Tensor) -> Values:
        """The values that some of ``words`` hold."""
        kind = self._pair.a.dtype
        a, b = (torch.from_numpy(as_array(side)[places.numpy()]).view(kind) for side in words)
        return Values(
            self._decoded(a, self._buffers[0]), self._decoded(b, self._buffers[1]), self._uint64
        )

    def _decoded(self, stored: torch.Tensor, buffer: torch.Tensor | None) -> torch.Tensor:
        if buffer is None:
            return stored
        size = stored.numel() * self._pair.pack
        out = buffer if size == self._size else buffer[:size]
        decode_into(stored, out)
        return out


def _in_words(stretch: torch.Tensor) -> bool:
    """Whether a stretch is made of whole, aligned groups of eight bytes."""
    size = stretch.dtype.itemsize
    lazy = stretch.is_neg() or stretch.is_conj()
    return not lazy and (stretch.numel() * size) % 8 == (stretch.storage_offset() * size) % 8 == 0
