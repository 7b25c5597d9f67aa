"""The pass of a gate in plain torch operations, block by block, in scratch that never grows."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from optest import tensors
from optest.checking.gate import COLUMNS, Allclose, Gate, GateTable, Judged, SameBits
from optest.checking.reader import BlockReader
from optest.checking.rule import Values
from optest.checking.table import block_of

_BLOCK = 1 << 16
_GPU_BLOCK = 1 << 22


def scan(gate: Gate) -> GateTable:
    """One row for each block, as ``GateTable`` describes; runs on the tensors' device."""
    positions = gate.pair.positions
    least = _BLOCK if gate.pair.a.device.type == "cpu" else _GPU_BLOCK
    block = block_of(positions, least)
    blocks = -(-positions // block)
    rows = torch.empty((blocks, len(COLUMNS)), dtype=torch.float64, device="cpu")
    walk = GateWalk.of(gate, block)
    for number in range(blocks):
        start, stop = number * block, min((number + 1) * block, positions)
        rows[number] = torch.tensor(walk.row(start, stop), dtype=torch.float64, device="cpu")
    return GateTable(rows, block)


def unequal_rows(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Bool on the CPU, of the shape but for the last dimension: rows that differ in a bit."""
    gate = Gate.of(expected, actual, SameBits())
    flags = torch.zeros(actual.shape[:-1], dtype=torch.bool, device="cpu")
    walk = GateWalk.of(gate, _BLOCK)
    for start in range(0, gate.pair.positions, _BLOCK):
        changed = walk.changed(start, min(start + _BLOCK, gate.pair.positions))
        places = torch.nonzero(changed).squeeze(1).cpu()
        if len(places):
            indices = gate.pair.indices((places + start) * gate.pair.pack)
            flags[tuple(indices[:, d] for d in range(actual.ndim - 1)) or ...] = True
    return flags


@dataclass(frozen=True)
class Stretch:
    """What was found of a stretch of positions; masks are flat, one entry a value.

    Attributes:
        values: expected and actual, with NaN that is ignored replaced by zeros on both sides.
        judged: the rule applied to them.
        bad: outside the rule, only where the rule applies.
        ignored: expected NaN that is left out.
        applies: where the rule applies: not ignored, in a row that it judges.
    """

    values: Values
    judged: Judged
    bad: torch.Tensor
    ignored: torch.Tensor
    applies: torch.Tensor


@dataclass(frozen=True)
class GateWalk:
    """Reads stretches of a gate's pair and judges them."""

    gate: Gate
    reader: BlockReader | None

    @classmethod
    def of(cls, gate: Gate, longest: int) -> GateWalk:
        """For stretches of at most ``longest`` positions."""
        if isinstance(gate.rule, SameBits):
            return cls(gate, None)
        return cls(gate, BlockReader(gate.pair, gate.domain, longest))

    def row(self, start: int, stop: int) -> list[float]:
        """The row of a ``GateTable`` for these positions."""
        changed = self._changed(start, stop)
        if self.reader is None:
            return [0, 0, 0, 0, 0, 0, 0, changed]
        found = self.stretch(start, stop)
        expected, actual, applies = found.values.a, found.values.b, found.applies
        measure = found.judged.measure.masked_fill(~self._measured(found), 0.0)
        row = (
            found.bad.sum(),
            (actual.isnan() & applies).sum(),
            (actual.isinf() & applies).sum(),
            (expected.isnan() & applies).sum(),
            (expected.isinf() & applies).sum(),
            found.ignored.sum(),
            measure.max(),
        )
        return [*(float(number) for number in row), changed]

    def stretch(self, start: int, stop: int) -> Stretch:
        """Judge these positions."""
        assert self.reader is not None
        assert not isinstance(self.gate.rule, SameBits)
        values = self.reader.read(start, stop)
        applies = self._rule_rows(start, stop, values.a)
        ignored = torch.zeros_like(applies)
        if self.gate.ignore_nan:
            ignored = values.a.isnan() & applies
            zeros = values.a.masked_fill(ignored, 0), values.b.masked_fill(ignored, 0)
            values = Values(*zeros, values.uint64)
            applies = applies & ~ignored
        judged = self.gate.rule.judge(values)
        return Stretch(values, judged, judged.bad & applies, ignored, applies)

    def changed(self, start: int, stop: int) -> torch.Tensor:
        """Where stored elements that must not change differ in a bit, one entry a position."""
        pair = self.gate.pair
        differ = torch.zeros(stop - start, dtype=torch.bool, device=pair.a.device)
        for at, a, b in pair.rectangles(start, stop):
            place = slice(at - start, at - start + a.numel())
            differ[place] = tensors.differ(a, b).reshape(-1)
        if self.gate.rows is not None:
            differ &= ~self._mapped(start, stop)
        return differ

    def _changed(self, start: int, stop: int) -> int:
        if self.reader is not None and self.gate.rows is None:
            return 0
        return int(self.changed(start, stop).sum())

    def _measured(self, found: Stretch) -> torch.Tensor:
        """What ``worst`` is the largest of."""
        if isinstance(self.gate.rule, Allclose):
            return found.judged.finite & found.applies
        return found.bad

    def _rule_rows(self, start: int, stop: int, like: torch.Tensor) -> torch.Tensor:
        if self.gate.rows is None:
            return torch.ones(like.shape, dtype=torch.bool, device=like.device)
        return self._mapped(start, stop).repeat_interleave(self.gate.pair.pack)

    def _mapped(self, start: int, stop: int) -> torch.Tensor:
        rows = self.gate.rows
        assert rows is not None
        position = torch.arange(start, stop, device=rows.mapped.device)
        return rows.mapped[position // rows.width].bool()
