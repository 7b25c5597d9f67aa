"""Where the mismatches lie, in words: one element, a row, a tile, a tail, every second column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_LISTED = 4
_FILLED = 0.6
_FEW_STEPS = 3


def pattern_of(indices: torch.Tensor, shape: Sequence[int], total: int) -> str:
    """Describe ``total`` mismatches in a tensor of ``shape`` from a sample of their indices.

    The sample (int64 [n, dims]) must hold the first and the last of them; what is said of the
    whole is checked against ``total``, so a sample of every second row is not taken for rows.
    """
    size = math.prod(shape)
    if not total:
        return ""
    if total == size:
        return "every element" if size > 1 else "the only element"
    if total == 1:
        return f"one element, {_point(indices[0].tolist())}"
    return _of_many(indices, shape, total)


def _of_many(indices: torch.Tensor, shape: Sequence[int], total: int) -> str:
    spans = [_span(indices[:, dim], shape[dim], total, len(indices)) for dim in range(len(shape))]
    filled = total / math.prod(span.count for span in spans)
    if filled > 1 or (filled < _FILLED and _run(indices, shape, total) is None):
        return "scattered"
    if filled < 1 and (run := _run(indices, shape, total)):
        return run
    text = ", ".join(
        span.words(dim, len(shape)) for dim, span in enumerate(spans) if not span.whole
    )
    if not text:
        return f"all over ({filled:.0%} of the elements)"
    share = f" ({filled:.0%} of the elements there)" if filled < 1 else ""
    return f"{text} only{share}"


@dataclass(frozen=True)
class _Span:
    """The coordinates that mismatches have along one dimension: some listed, or a progression."""

    first: int
    last: int
    step: int
    size: int
    listed: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return len(self.listed) or (self.last - self.first) // self.step + 1

    @property
    def whole(self) -> bool:
        return self.count == self.size

    def words(self, dim: int, dims: int) -> str:
        one = _name(dim, dims)
        if self.count == 1:
            return f"{one} {self.first}"
        if self.listed:
            return f"{one}s {', '.join(map(str, self.listed))}"
        if self.step > 1:
            covers = self.first < self.step and self.last + self.step >= self.size
            where = f"from {self.first}" if covers else f"{self.first} to {self.last}"
            return f"every {_ordinal(self.step)} {one} ({where})"
        if self.last == self.size - 1:
            return f"the last {self.count} {one}s (from {self.first})"
        return f"{one}s {self.first} to {self.last}"


def _span(coordinates: torch.Tensor, size: int, total: int, sampled: int) -> _Span:
    distinct = torch.unique(coordinates)
    first, last = int(distinct[0]), int(distinct[-1])
    step = math.gcd(*(distinct - first).tolist()) or 1
    progression = _Span(first, last, step, size)
    few_steps = step > 1 and progression.count < _FEW_STEPS
    gaps = len(distinct) < progression.count
    if total == sampled and len(distinct) <= _LISTED and (gaps or few_steps):
        return _Span(first, last, step, size, tuple(distinct.tolist()))
    return _Span(first, last, 1, size) if few_steps else progression


def _run(indices: torch.Tensor, shape: Sequence[int], total: int) -> str | None:
    """A stretch without gaps in row-major order, where the mismatches are one."""
    weights = torch.tensor([math.prod(shape[dim + 1 :]) for dim in range(len(shape))])
    flat = (indices * weights).sum(1)
    first, last = int(flat.min()), int(flat.max())
    if total != last - first + 1:
        return None
    start, end = (_point(indices[int(at)].tolist()) for at in (flat.argmin(), flat.argmax()))
    if last == math.prod(shape) - 1:
        return f"the tail from {start} on, {total} elements"
    if first == 0:
        return f"the head up to {end}, {total} elements"
    return f"a run from {start} to {end}, {total} elements"


def _point(index: Sequence[int]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _name(dim: int, dims: int) -> str:
    if dims == 1:
        return "element"
    if dims == 2:  # noqa: PLR2004
        return ("row", "column")[dim]
    return f"dim-{dim} index" if dim < dims - 1 else "column"


def _ordinal(number: int) -> str:
    teens = 10 < number % 100 < 14  # noqa: PLR2004
    suffix = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
