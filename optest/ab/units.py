"""What both sides have to run: the same unit of each beside the other, and what one lacks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from optest.store.records import Planned, Result
from optest.sweep.executor import Collection
from optest.sweep.filters import Filters

Pair = tuple[Planned | None, Planned | None]


@dataclass(frozen=True)
class Units:
    """Of base and head together.

    Attributes:
        pairs: each unit of either side, in the order of files and their cases.
        lost: per side, what cannot run there since its file cannot, though it can on the other.
        faulty: files that can run on neither side.
        gated: files that asked for no case on a side, with the reason.
    """

    pairs: Sequence[Pair] = ()
    lost: tuple[Sequence[Result], Sequence[Result]] = ((), ())
    faulty: Sequence[Collection] = ()
    gated: Sequence[Collection] = ()


@dataclass
class _Sorting:
    pairs: list[Pair] = field(default_factory=list)
    lost: tuple[list[Result], list[Result]] = field(default_factory=lambda: ([], []))
    faulty: list[Collection] = field(default_factory=list)
    gated: list[Collection] = field(default_factory=list)


def paired(base: Iterable[Collection], head: Iterable[Collection]) -> Units:
    """Units side by side; a file that one side runs whole is run whole on both."""
    found = [{each.file: each for each in side} for side in (base, head)]
    out = _Sorting()
    for file in dict.fromkeys([*found[0], *found[1]]):
        _sort(out, found[0].get(file), found[1].get(file))
    pairs = [_placed(pair, at) for at, pair in enumerate(out.pairs)]
    units = {unit.key: unit for pair in pairs for unit in pair if unit is not None}
    lost = [[replace(each, planned=units[each.planned.key]) for each in side] for side in out.lost]
    return Units(pairs, (lost[0], lost[1]), out.faulty, out.gated)


def chosen(units: Units, filters: Filters, gfx: str) -> Units:
    """What filters leave of it.

    Raises:
        UsageError: a filter that matches nothing.
    """
    every = [next(unit for unit in pair if unit is not None) for pair in units.pairs]
    left = {unit.key for unit in filters.cases(every, gfx)}
    pairs = [pair for unit, pair in zip(every, units.pairs, strict=True) if unit.key in left]
    lost = (
        [each for each in units.lost[0] if each.planned.key in left],
        [each for each in units.lost[1] if each.planned.key in left],
    )
    return replace(units, pairs=pairs, lost=lost)


def _sort(out: _Sorting, base: Collection | None, head: Collection | None) -> None:
    both = (base, head)
    here = [side for side in both if side is not None]
    out.gated += [side for side in here if side.gated]
    if all(side.fault for side in here):
        out.faulty.append(here[-1])
        return
    if any(side.whole for side in here):
        both = (_whole(base), _whole(head))
    for mine, other, lost in ((both[0], both[1], out.lost[0]), (both[1], both[0], out.lost[1])):
        if mine is not None and mine.fault and other is not None:
            lost += [
                Result(unit, "error", mine.fault, started=time.time()) for unit in other.planned
            ]
    units = [{u.key: u for u in side.planned} if side is not None else {} for side in both]
    out.pairs += [(units[0].get(k), units[1].get(k)) for k in dict.fromkeys([*units[0], *units[1]])]


def _whole(side: Collection | None) -> Collection | None:
    if side is None or side.fault or side.gated:
        return side
    return replace(side, planned=(Planned(Path(side.file).name, side.file),))


def _placed(pair: Pair, at: int) -> Pair:
    base, head = pair
    return (
        base and replace(base, position=at),
        head and replace(head, position=at),
    )
