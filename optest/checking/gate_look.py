"""The second look of a gate: which elements are bad, read only in blocks that hold some."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.checking.gate_plain import GateWalk, Stretch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optest.checking.gate import Gate, GateTable

# Small enough for torch to stay in one thread.
_PART = 1 << 13


@dataclass(frozen=True)
class Seen:
    """One element: where it is, both values, and how far apart they are.

    ``measure`` is what the rule held against its threshold.
    """

    index: tuple[int, ...]
    actual: float
    expected: float
    difference: float
    measure: float

    @property
    def place(self) -> str:
        """``[1,0,2]``."""
        return place_of(self.index)


def place_of(index: tuple[int, ...]) -> str:
    """An index as ``[1,0,2]``."""
    return f"[{','.join(map(str, index))}]"


def first_bad(gate: Gate, table: GateTable, show: int) -> list[Seen]:
    """The first ``show`` bad elements, in the order of the walk."""
    return _first(gate, table, ("bad",), show)


def first_illegal(gate: Gate, table: GateTable, show: int) -> list[Seen]:
    """The first ``show`` elements with a NaN or Inf that nothing leaves out."""
    return _first(gate, table, ("nan_actual", "inf_actual", "nan_expected", "inf_expected"), show)


def _first(gate: Gate, table: GateTable, columns: tuple[str, ...], show: int) -> list[Seen]:
    found: list[Seen] = []
    for start, stretch in _parts(gate, table, columns):
        if len(found) >= show:
            break
        wanted = stretch.bad if columns == ("bad",) else stretch.applies & ~stretch.judged.finite
        places = torch.nonzero(wanted).squeeze(1).tolist()
        found += [_seen(gate, start, stretch, at) for at in places[: show - len(found)]]
    return sorted(found, key=lambda seen: seen.index)


def worst_of(gate: Gate, table: GateTable) -> Seen | None:
    """The first element whose measure is the largest of all."""
    block = int(table.column("worst").argmax())
    best: Seen | None = None
    walk = GateWalk.of(gate, _PART)
    for start, stop in _pieces(gate, table, block):
        stretch = walk.stretch(start, stop)
        counts = stretch.judged.finite & stretch.applies
        measure = stretch.judged.measure.masked_fill(~counts, -1.0)
        at = int(measure.argmax())
        if float(measure[at]) > (best.measure if best else -1.0):
            best = _seen(gate, start, stretch, at)
    return best


def changed_blocks(gate: Gate, table: GateTable) -> Iterator[torch.Tensor]:
    """int64 [n, dims]: the indices of all stored elements that differ in a bit, part by part."""
    walk = GateWalk.of(gate, _PART)
    for block in _holding(table, "changed"):
        for start, stop in _pieces(gate, table, block):
            places = torch.nonzero(walk.changed(start, stop)).squeeze(1).cpu()
            if len(places):
                yield gate.pair.indices((places + start) * gate.pair.pack)


def _holding(table: GateTable, *columns: str) -> list[int]:
    counts = sum(table.column(column) for column in columns)
    assert isinstance(counts, torch.Tensor)
    blocks: list[int] = torch.nonzero(counts).squeeze(1).tolist()
    return blocks


def _pieces(gate: Gate, table: GateTable, block: int) -> Iterator[tuple[int, int]]:
    end = min((block + 1) * table.block, gate.pair.positions)
    for start in range(block * table.block, end, _PART):
        yield start, min(start + _PART, end)


def _parts(gate: Gate, table: GateTable, columns: tuple[str, ...]) -> Iterator[tuple[int, Stretch]]:
    walk = GateWalk.of(gate, _PART)
    for block in _holding(table, *columns):
        for start, stop in _pieces(gate, table, block):
            yield start, walk.stretch(start, stop)


def _seen(gate: Gate, start: int, stretch: Stretch, at: int) -> Seen:
    values = stretch.values
    expected = _number(values.a[at], unsigned=values.uint64[0])
    actual = _number(values.b[at], unsigned=values.uint64[1])
    index = gate.pair.index(start * gate.pair.pack + at)
    difference, measure = float(stretch.judged.difference[at]), float(stretch.judged.measure[at])
    if math.isnan(difference):
        difference = math.inf
    return Seen(index, actual, expected, difference, measure)


def _number(value: torch.Tensor, *, unsigned: bool) -> float:
    number: float = value.item()
    return number + 2**64 if unsigned and number < 0 else number
