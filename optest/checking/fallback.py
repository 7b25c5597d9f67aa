"""The pass over memory in plain torch operations, block by block, in scratch that never grows."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch

from optest.checking import rule
from optest.checking.decode import decode_into
from optest.checking.rule import Values
from optest.checking.table import COLUMNS, GROSS_FACTOR, Bounds, Table, block_of

if TYPE_CHECKING:
    from optest.checking.domain import Domain
    from optest.checking.pair import Pair

# Between these, fp32 sums of squares of a block neither overflow nor lose what matters.
_LARGE, _SMALL = 1e15, 1e-15
# On the CPU a block's buffers stay in a core's cache and are small enough for torch to work on them
# in one thread; the blocks are shared out among threads instead.
_CPU_BLOCK = 1 << 15
_GPU_BLOCK = 1 << 20
_MAX_WORKERS = 16


def scan(pair: Pair, domain: Domain, bounds: Bounds) -> Table:
    """One row for each block, as ``Table`` describes; runs on the tensors' device."""
    on_cpu = pair.a.device.type == "cpu"
    block = block_of(pair.positions, _CPU_BLOCK if on_cpu else _GPU_BLOCK)
    blocks = -(-pair.positions // block)
    rows = torch.empty((blocks, len(COLUMNS)), dtype=torch.float64, device="cpu")
    workers = min(torch.get_num_threads(), blocks, _MAX_WORKERS) if on_cpu else 1
    numbers, table = iter(range(blocks)), rows.numpy()

    def work() -> None:
        reader = BlockReader(pair, domain, block)
        scratch = _Scratch(reader.values_in(block), domain.compute, pair.a.device)
        for number in numbers:
            start = number * block
            values = reader.read(start, min(start + block, pair.positions))
            table[number] = _row(values, scratch, bounds)

    if workers == 1:
        work()
    else:
        with ThreadPoolExecutor(workers) as pool:
            for done in [pool.submit(work) for _ in range(workers)]:
                done.result()
    return Table(rows, block)


class BlockReader:
    """Decodes stretches of a pair into buffers of its own, which the next read overwrites."""

    def __init__(self, pair: Pair, domain: Domain, block: int) -> None:
        size = min(block, pair.positions) * pair.pack
        self._pair = pair
        self._flat = pair.a.ndim == 1
        self._uint64 = (pair.a.dtype == torch.uint64, pair.b.dtype == torch.uint64)
        self._buffers = [
            None
            if self._usable(side, domain.compute)
            else torch.empty(size, dtype=domain.compute, device=side.device)
            for side in (pair.a, pair.b)
        ]

    def _usable(self, side: torch.Tensor, compute: torch.dtype) -> bool:
        return side.dtype == compute and side.is_contiguous() and self._flat

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

    def _decoded(self, stored: torch.Tensor, buffer: torch.Tensor | None) -> torch.Tensor:
        if buffer is None:
            return stored
        size = stored.numel() * self._pair.pack
        out = buffer if size == len(buffer) else buffer[:size]
        decode_into(stored, out)
        return out


class _Scratch:
    """Buffers for one block: nothing else of a block's size is allocated where all is well."""

    def __init__(self, size: int, compute: torch.dtype, device: torch.device) -> None:
        real = torch.empty(0, dtype=compute).abs().dtype
        self.complex = compute.is_complex
        self.integer = compute == torch.int64
        self.raw = torch.empty(size if self.complex else 0, dtype=compute, device=device)
        self.difference = torch.empty(0 if self.integer else size, dtype=real, device=device)
        self.bound = torch.empty_like(self.difference)
        self.flags = torch.empty_like(self.difference)

    def first(self, n: int) -> tuple[torch.Tensor, ...]:
        """The buffers ``difference``, ``bound``, ``flags`` and ``raw``, cut to n elements."""
        whole = (self.difference, self.bound, self.flags, self.raw)
        return whole if n == len(self.difference) else tuple(buffer[:n] for buffer in whole)


def _row(values: Values, scratch: _Scratch, bounds: Bounds) -> list[float]:
    if scratch.integer:
        return _integers(values, bounds)
    return _usual(values, scratch, bounds) or _reals(values, bounds)


def _usual(values: Values, scratch: _Scratch, bounds: Bounds) -> list[float] | None:
    """A row for finite values of ordinary size, in few operations; None for any others.

    Flags are 0.0 and 1.0 since torch's comparisons into bool are several times slower, and so is
    ``max`` beside ``amax``.
    """
    d, t, flags, raw = scratch.first(values.a.numel())
    if scratch.complex:
        torch.abs(torch.sub(values.a, values.b, out=raw), out=d)
    else:
        torch.sub(values.a, values.b, out=d).abs_()
    torch.abs(values.a, out=t)
    max_abs, peak = float(d.amax()), float(t.amax())
    if not (max_abs <= _LARGE and peak <= _LARGE and not 0 < max(max_abs, peak) < _SMALL):
        return None
    sums = float(torch.dot(t, t)), float(torch.dot(d, d))
    mismatched = int(torch.lt(t.mul_(bounds.rtol).add_(bounds.atol), d, out=flags).sum())
    margin, gross = -math.inf, 0
    if mismatched and float(t.mul_(-GROSS_FACTOR).add_(d).amax()) > 0:
        excess = d.sub_(values.a.abs().mul_(0.5)).masked_fill_(t <= 0, -torch.inf)
        margin, gross = float(excess.amax()), int((excess > bounds.gross_floor).sum())
    return [mismatched, 0, gross, 0, 0, 0, 0, 0, *sums, max_abs, peak, margin]


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
