"""Two tensors of one shape walked in one order, in blocks, without a copy of either."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.checking.domain import FP4X2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True)
class Pair:
    """Reference and candidate with dimensions merged where both strides allow.

    ``a`` and ``b`` are views of one shape; a *position* counts their storage elements in row-major
    order, from 0 to ``positions - 1``. Where both tensors are transposed alike the walk follows
    memory, so positions are not the order of the given indices; ``index`` translates.

    Attributes:
        shape: of the tensors as given.
        order: the given dimensions in the order of the walk.
        pack: values in one storage element: 2 for fp4x2, else 1.
    """

    a: torch.Tensor
    b: torch.Tensor
    shape: tuple[int, ...]
    order: tuple[int, ...]
    pack: int

    @classmethod
    def of(cls, reference: torch.Tensor, candidate: torch.Tensor) -> Pair:
        """Pair two tensors of equal shape, with at least one element."""
        a, b = reference.detach(), candidate.detach()
        shape = tuple(a.shape)
        if a.is_contiguous() and b.is_contiguous():
            return cls(a.view(-1), b.view(-1), shape, tuple(range(a.ndim)), pack_of(a.dtype))
        order = tuple(sorted(range(a.ndim), key=lambda d: (-a.stride()[d], d)))
        if any(a.stride(d) != b.stride(d) for d in order if shape[d] > 1):
            order = tuple(range(a.ndim))
        a, b = a.permute(order), b.permute(order)
        sizes = _merged(a.shape, a.stride(), b.stride())
        return cls(_merge(a, sizes), _merge(b, sizes), shape, order, pack_of(a.dtype))

    @property
    def positions(self) -> int:
        """Storage elements in either tensor."""
        return self.a.numel()

    @property
    def values(self) -> int:
        """Values compared."""
        return self.positions * self.pack

    @property
    def unpacked_shape(self) -> tuple[int, ...]:
        """The shape counted in values."""
        if self.pack == 1 or not self.shape:
            return self.shape if self.pack == 1 else (self.pack,)
        return (*self.shape[:-1], self.shape[-1] * self.pack)

    def rectangles(self, start: int, stop: int) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """Cover positions ``start`` to ``stop`` by few rectangular views of both tensors.

        Yields the first position of each and the two views, in the order of the positions.
        """
        yield from _rectangles(self.a, self.b, start, stop, 0)

    def index(self, value: int) -> tuple[int, ...]:
        """The index, in ``unpacked_shape``, of a value counted in the order of the walk."""
        position, part = divmod(value, self.pack)
        index = [0] * len(self.shape)
        for dim in reversed(self.order):
            position, index[dim] = divmod(position, self.shape[dim])
        if self.pack > 1:
            index = [*index[:-1], index[-1] * self.pack + part] if index else [part]
        return tuple(index)

    def indices(self, values: torch.Tensor) -> torch.Tensor:
        """``index`` for a vector of values: int64 ``[n]`` -> int64 ``[n, dims]``."""
        position, part = values // self.pack, values % self.pack
        columns = [torch.zeros_like(position) for _ in self.shape]
        for dim in reversed(self.order):
            columns[dim] = position % self.shape[dim]
            position = position // self.shape[dim]
        if self.pack > 1:
            last = columns[-1] * self.pack + part if columns else part
            columns = [*columns[:-1], last]
        if not columns:
            return torch.zeros((values.numel(), 0), dtype=torch.int64)
        return torch.stack(columns, dim=1)


def pack_of(dtype: torch.dtype) -> int:
    """Values in one storage element."""
    return 2 if dtype == FP4X2 else 1


def _merged(shape: Sequence[int], *strides: Sequence[int]) -> list[list[int]]:
    """Groups of neighbouring dimensions that every set of strides lets us walk as one."""
    groups: list[list[int]] = []
    for dim, size in enumerate(shape):
        if size == 1:
            continue
        if groups and all(s[groups[-1][-1]] == s[dim] * size for s in strides):
            groups[-1].append(dim)
        else:
            groups.append([dim])
    return groups


def _merge(tensor: torch.Tensor, groups: list[list[int]]) -> torch.Tensor:
    sizes = [math.prod(tensor.shape[d] for d in group) for group in groups] or [1]
    return tensor.view(sizes)


def _rectangles(
    a: torch.Tensor, b: torch.Tensor, start: int, stop: int, base: int
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    if a.ndim == 1:
        yield base + start, a[start:stop], b[start:stop]
        return
    inner = a[0].numel()
    first, last = start // inner, stop // inner
    if first == (stop - 1) // inner and stop - start < inner:
        at = base + first * inner
        yield from _rectangles(a[first], b[first], start % inner, stop - first * inner, at)
        return
    if start % inner:
        at = base + first * inner
        yield from _rectangles(a[first], b[first], start % inner, inner, at)
        first += 1
    if last > first:
        yield base + first * inner, a[first:last], b[first:last]
    if stop % inner:
        yield from _rectangles(a[last], b[last], 0, stop % inner, base + last * inner)
