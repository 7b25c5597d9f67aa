"""The pass over memory in plain torch operations, block by block, in scratch that never grows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from optest.checking import rule
from optest.checking.reader import BlockReader
from optest.checking.rule import Values
from optest.checking.table import COLUMNS, GROSS_FACTOR, MAXIMA, Bounds, Table, block_of
from optest.checking.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optest.checking.domain import Domain
    from optest.checking.pair import Pair

# Between these, fp32 sums of squares of a block neither overflow nor lose what matters.
_LARGE, _SMALL = 1e15, 1e-15
# Torch shares each operation out among its threads: enough for all of them, and so little that what
# one of them works on stays in its core's cache.
_CPU_BLOCK_BYTES_A_THREAD = 1 << 20
# Blocks of short dtypes take more operations, most of them on few values: twice as long, they need
# the interpreter half as often, for which workers wait.
_SHORT, _SHORT_FACTOR = 2, 2
_MOST_CPU_BLOCK_BYTES = 1 << 23
_GPU_BLOCK_BYTES = 1 << 24
# More, relative, than fp32 can be off in one fused operation.
_ROUNDING = 1e-6
# Where a block was not equal the next ones will not be either; now and then it is asked again.
_ASK_AGAIN = 8
# As few words as one in so many are looked at by themselves.
_FEW = 8
_SQUARE, _PEAK = COLUMNS.index("sum_reference"), COLUMNS.index("peak")
# What is unusual takes some twenty temporaries: in parts, so that memory stays small.
_PART = 1 << 15


def scan(pair: Pair, domain: Domain, bounds: Bounds) -> Table:
    """One row for each block, as ``Table`` describes; runs on the tensors' device."""
    workers = _workers(pair)
    wanted = _block_bytes(pair, workers) // (domain.compute.itemsize * pair.pack)
    block = block_of(pair.positions, wanted)
    blocks = -(-pair.positions // block)
    rows = torch.empty((blocks, len(COLUMNS)), dtype=torch.float64, device="cpu")
    table = rows.numpy()

    def work(numbers: Iterator[int]) -> None:
        reader = BlockReader(pair, domain, block)
        scratch = _Scratch(reader, reader.values_in(block), domain.compute)
        row, equal = None, True
        for turn, number in enumerate(numbers):
            part = number * block, min((number + 1) * block, pair.positions)
            if equal or turn % _ASK_AGAIN == 0:
                row = _equal(reader.equal_values(*part), scratch, bounds)
                equal = row is not None
            if not equal:
                row = _sparse(reader, part, scratch, bounds)
            table[number] = row or _row(reader, part, scratch, bounds)

    workers.run(work, blocks)
    return Table(rows, block)


def _workers(pair: Pair) -> Workers:
    if pair.a.device.type != "cpu":
        return Workers(1, 1)
    return Workers.of(pair.positions * pair.a.dtype.itemsize)


def _block_bytes(pair: Pair, workers: Workers) -> int:
    if pair.a.device.type != "cpu":
        return _GPU_BLOCK_BYTES
    wanted = _CPU_BLOCK_BYTES_A_THREAD * workers.threads
    if pair.a.dtype.itemsize <= _SHORT:
        wanted *= _SHORT_FACTOR
    return 1 << (min(wanted, _MOST_CPU_BLOCK_BYTES // workers.count).bit_length() - 1)


class _Scratch:
    """Buffers for one block: nothing else of a block's size is allocated where all is well."""

    def __init__(self, reader: BlockReader, size: int, compute: torch.dtype) -> None:
        real = torch.empty(0, dtype=compute).abs().dtype
        self.complex = compute.is_complex
        self.integer = compute == torch.int64
        empty = torch.empty(0 if self.integer else size, dtype=real, device=reader.device)
        # What was decoded is the reader's own, and may be spent: the less memory, the nearer it is.
        spare = [None, None] if self.complex or self.integer else reader.buffers
        self.bound = empty if spare[0] is None else spare[0]
        self.difference = torch.empty_like(empty) if spare[1] is None else spare[1]
        self.flags = empty if self.bound is not empty else torch.empty_like(empty)
        self._scalar: torch.Tensor | None = None
        raw = torch.empty_like(self.bound, dtype=compute) if self.complex else self.difference
        self._whole = (self.difference, self.bound, self.flags, raw)
        self._size = self.difference.numel()  # len() asks whether it is being traced, each time

    def scalar(self, value: float) -> torch.Tensor:
        """A tensor of one value, made once."""
        if self._scalar is None:
            self._scalar = torch.full_like(self.bound[:1], value).squeeze(0)
        return self._scalar

    def first(self, n: int) -> tuple[torch.Tensor, ...]:
        """Buffers of n elements: |a - b|, the bound, flags; and a - b, the first unless complex."""
        if n == self._size:
            return self._whole
        return tuple(buffer[:n] for buffer in self._whole)


def _row(
    reader: BlockReader, part: tuple[int, int], scratch: _Scratch, bounds: Bounds
) -> list[float]:
    def read() -> Values:
        return reader.read(*part)

    if scratch.integer:
        return _integers(read(), bounds)
    if row := _usual(read, scratch, bounds):
        return row
    values = read()  # again: the usual way spends what was decoded
    parts = zip(torch.split(values.a, _PART), torch.split(values.b, _PART), strict=True)
    return _joined([_reals(Values(a, b), bounds) for a, b in parts])


def _equal(a: torch.Tensor | None, scratch: _Scratch, bounds: Bounds) -> list[float] | None:
    """A row for a stretch that is equal on both sides; None where NaN, Inf or sizes need a look."""
    if a is None or scratch.integer or scratch.complex:
        return None
    square = float(torch.dot(a, a))
    if not _ordinary(a, square, 0.0):
        return None
    peak = float(torch.abs(a, out=scratch.first(a.numel())[1]).amax()) if bounds.peak else 0.0
    return [0, 0, 0, 0, 0, 0, 0, 0, square, 0.0, 0.0, peak, -math.inf]


def _sparse(
    reader: BlockReader, part: tuple[int, int], scratch: _Scratch, bounds: Bounds
) -> list[float] | None:
    """A row for a stretch of a short dtype in which few words differ; None where it is none."""
    words = None if scratch.integer or scratch.complex else reader.words(*part)
    places = None if words is None else reader.differing(*words)
    if words is None or places is None or places.numel() > words[0].numel() // _FEW:
        return None
    whole = _equal(reader.reference(*part), scratch, bounds)
    if whole is None or not places.numel():
        return whole
    row = _usual(lambda: reader.few(words, places), scratch, bounds)
    if row is not None:
        row[_SQUARE], row[_PEAK] = whole[_SQUARE], whole[_PEAK]
    return row


def _joined(rows: list[list[float]]) -> list[float]:
    columns = zip(COLUMNS, zip(*rows, strict=True), strict=True)
    return [max(numbers) if name in MAXIMA else sum(numbers) for name, numbers in columns]


def _usual(read: Callable[[], Values], scratch: _Scratch, bounds: Bounds) -> list[float] | None:
    """A row for finite values of ordinary size, in few operations; None for any others.

    Each operation costs about what reading the block does, so what cannot matter is left out:
    nothing mismatches where no difference is above atol, nothing is far off where none is above
    16 atol. Values are spent where they were decoded: first the candidate's, then the reference's.
    """
    values = read()
    d, t, flags, raw = scratch.first(values.a.numel())
    torch.abs(torch.sub(values.a, values.b, out=raw), out=d)
    max_abs = float(d.amax())
    size = torch.abs(values.a, out=t) if scratch.complex else values.a
    square = float(torch.dot(size, size))
    if not (max_abs <= _LARGE and _ordinary(size, square, max_abs)):
        return None
    sums = square, float(torch.dot(d, d)) if max_abs else 0.0
    if bounds.peak or max_abs > bounds.atol:
        torch.abs(values.a, out=t)
    peak = float(t.amax()) if bounds.peak else 0.0
    mismatched, gross, margin = 0, 0, -math.inf
    if max_abs > bounds.atol:
        # Flags of 0.0 and 1.0: torch's comparisons into bool are several times slower.
        torch.add(scratch.scalar(bounds.atol), t, alpha=bounds.rtol, out=t)
        mismatched = int(torch.lt(t, d, out=flags).sum())
        if mismatched and max_abs > GROSS_FACTOR * bounds.atol:
            beyond = torch.sub(d, t, alpha=GROSS_FACTOR, out=flags)
            if float(beyond.amax()) > -_ROUNDING * max_abs:
                gross, margin = _far(read(), bounds)
    return [mismatched, 0, gross, 0, 0, 0, 0, 0, *sums, max_abs, peak, margin]


def _ordinary(size: torch.Tensor, square: float, max_abs: float) -> bool:
    """Whether a finite sum of squares is true: they did not overflow, nor vanish but for zeros."""
    if square == 0:
        return (max_abs == 0 or max_abs > _SMALL) and not bool(size.any())
    return _SMALL**2 < square < _LARGE**2


def _far(values: Values, bounds: Bounds) -> tuple[int, float]:
    """How many elements are gross, and the margin."""
    gross, margin = 0, -math.inf
    for a, b in zip(torch.split(values.a, _PART), torch.split(values.b, _PART), strict=True):
        d, size = (a - b).abs(), a.abs()
        beyond = d - GROSS_FACTOR * (size * bounds.rtol + bounds.atol)
        if float(beyond.amax()) <= 0:
            continue
        excess = d.sub_(size.mul_(0.5)).masked_fill_(beyond <= 0, -torch.inf)
        gross += int((excess > bounds.gross_floor).sum())
        margin = max(margin, float(excess.amax()))
    return gross, margin


def _reals(values: Values, bounds: Bounds) -> list[float]:
    """A row for whatever the values are."""
    judged = rule.apply(values, bounds)
    excess = judged.excess()
    finite_a, nan_a, nan_b = torch.isfinite(values.a), values.a.isnan(), values.b.isnan()
    difference = judged.difference.double().masked_fill(~judged.finite, 0.0)
    magnitude = judged.magnitude.double().masked_fill(~finite_a, 0.0)
    row = (
        judged.mismatch.sum(),
        (judged.mismatch & ~judged.finite).sum(),
        (excess > bounds.gross_floor).sum(),
        0,
        nan_a.sum(),
        nan_b.sum(),
        (~finite_a & ~nan_a).sum(),
        (~torch.isfinite(values.b) & ~nan_b).sum(),
        magnitude.square().sum(),
        difference.square().sum(),
        difference.max(),
        magnitude.max(),
        excess.max(),
    )
    return [float(number) for number in row]


def _integers(values: Values, bounds: Bounds) -> list[float]:
    """A row for exact integers, most of which are equal in most comparisons."""
    mismatched, different, max_abs = 0, 0, 0.0
    if values.uint64[0] != values.uint64[1] or not torch.equal(values.a, values.b):
        judged = rule.apply(values, bounds)
        mismatched = int(judged.mismatch.sum())
        different = int((judged.difference > 0).sum()) - mismatched
        max_abs = float(judged.difference.max())
    peak = float(rule.magnitude_of(values).max())
    return [mismatched, 0, 0, different, 0, 0, 0, 0, 0.0, 0.0, max_abs, peak, -math.inf]
