"""Which elements are wrong: read again only in the blocks that hold them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.checking import rule
from optest.checking.decode import decode_into
from optest.checking.reader import BlockReader
from optest.checking.verdict import Element, Value

if TYPE_CHECKING:
    from optest.checking.domain import Domain
    from optest.checking.pair import Pair
    from optest.checking.table import Bounds, Table

_WHOLE_BLOCKS = 4
_SAMPLED_HALF = 2048
# Small enough for torch to stay in one thread: these few operations are over before a second wakes.
_PART = 1 << 13


@dataclass(frozen=True)
class Located:
    """Where the mismatches are.

    Attributes:
        shown: the first of them, in the order of their indices as far as they were sampled.
        worst: the one that is furthest off; the first wrongly NaN or Inf goes before all others.
        indices: int64 [n, dims], of a sample of the mismatches, the first and the last among them.
    """

    shown: tuple[Element, ...]
    worst: Element | None
    indices: torch.Tensor


@dataclass(frozen=True)
class _Finder:
    pair: Pair
    domain: Domain
    bounds: Bounds
    block: int
    reader: BlockReader

    def part(self, start: int) -> tuple[int, rule.Judged]:
        """The part of a block that starts there, with the number of its first value."""
        end = min((start // self.block + 1) * self.block, self.pair.positions)
        values = self.reader.read(start, min(start + _PART, end))
        return start * self.pair.pack, rule.apply(values, self.bounds)

    def starts(self, block: int) -> range:
        """Where the parts of a block start."""
        end = min((block + 1) * self.block, self.pair.positions)
        return range(block * self.block, end, _PART)

    def mismatches(self, block: int, enough: int, *, last: bool = False) -> torch.Tensor:
        """At least ``enough`` mismatches of a block where it has them: its first, or its last.

        In the order of the walk, by whole parts of the block, of each its first and its last.
        """
        found: list[torch.Tensor] = []
        starts = reversed(self.starts(block)) if last else iter(self.starts(block))
        while sum(map(len, found)) < enough and (start := next(starts, None)) is not None:
            first, judged = self.part(start)
            values = torch.nonzero(judged.mismatch).squeeze(1).cpu() + first
            head = max(min(enough, len(values)), _SAMPLED_HALF)
            if len(values) > head + _SAMPLED_HALF:
                values = torch.cat((values[:head], values[-_SAMPLED_HALF:]))
            found.append(values)
        return torch.cat(found[::-1] if last else found)

    def worst(self, block: int) -> int:
        """The first value that is wrongly NaN or Inf, else the one that is furthest off."""
        furthest, at = -1.0, 0
        for start in self.starts(block):
            first, judged = self.part(start)
            wild = torch.nonzero(judged.mismatch & ~judged.finite)
            if wild.numel():
                return first + int(wild[0])
            off, where = judged.difference.masked_fill(~judged.finite, -1.0).max(dim=0)
            if float(off) > furthest:
                furthest, at = float(off), first + int(where)
        return at

    def element(self, value: int) -> Element:
        """The element at a value's position, its numbers as exact as Python can hold them."""
        got, want = (self._stored(side, value) for side in (self.pair.b, self.pair.a))
        difference = float(abs(got - want))
        size = float(abs(want))
        relative = difference / size if size else math.inf if difference else 0.0
        return Element(self.pair.index(value), got, want, difference, relative)

    def _stored(self, side: torch.Tensor, value: int) -> Value:
        position, part = divmod(value, self.pair.pack)
        at = []
        for size in reversed(side.shape):
            position, i = divmod(position, size)
            at.append(i)
        stored = side[tuple(reversed(at))].reshape(1)
        if stored.dtype == torch.bool and (byte := int(stored.view(torch.uint8))) > 1:
            return byte  # as bool it would read True: "got True, want True"
        if stored.dtype == torch.uint64 or not _exact_in_compute(stored.dtype, self.domain):
            return stored.item()
        out = torch.empty(self.pair.pack, dtype=self.domain.compute, device=stored.device)
        decode_into(stored, out)
        return out[part].item()


def _exact_in_compute(dtype: torch.dtype, domain: Domain) -> bool:
    """Whether to print a value as decoded (floats) or as stored (integers and bool)."""
    return dtype.is_floating_point or (dtype.is_complex and domain.compute.is_complex)


def locate(pair: Pair, domain: Domain, bounds: Bounds, table: Table, show: int) -> Located:
    """Find the mismatches that ``table`` counted, ``show`` of them with their values."""
    finder = _Finder(pair, domain, bounds, table.block, BlockReader(pair, domain, _PART))
    hit = torch.nonzero(table.column("mismatched")).squeeze(1).tolist()
    show = max(show, 0)
    found = _all(finder, hit) if len(hit) <= _WHOLE_BLOCKS else _some(finder, hit, show)
    values = torch.cat(found) if found else torch.empty(0, dtype=torch.int64)
    first = sorted((pair.index(int(v)), int(v)) for v in values[:show])
    return Located(
        shown=tuple(finder.element(value) for _, value in first),
        worst=_worst(finder, table),
        indices=pair.indices(values),
    )


def _all(finder: _Finder, hit: list[int]) -> list[torch.Tensor]:
    return [finder.mismatches(block, finder.block) for block in hit]


def _some(finder: _Finder, hit: list[int], show: int) -> list[torch.Tensor]:
    """From the first blocks as many as are shown, a few from the middle, and the last."""
    blocks, found = iter(hit[:-1]), [torch.empty(0, dtype=torch.int64)]
    while (missing := max(show, 1) - sum(map(len, found))) > 0:
        block = next(blocks, None)
        if block is None:
            return [*found, finder.mismatches(hit[-1], finder.block)]
        found.append(finder.mismatches(block, missing))
    if rest := list(blocks):
        found.append(finder.mismatches(rest[len(rest) // 2], 1))
    return [*found, finder.mismatches(hit[-1], 1, last=True)]


def _worst(finder: _Finder, table: Table) -> Element | None:
    wild = torch.nonzero(table.column("nonfinite"))
    if wild.numel():
        return finder.element(finder.worst(int(wild[0])))
    if table.count("mismatched") == 0 and table.total("max_abs") == 0:
        return None
    return finder.element(finder.worst(int(table.column("max_abs").argmax())))
