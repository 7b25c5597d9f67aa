"""In which order a sweep's units run, and in which its tables show them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from optest.store.records import Expected, Planned
from optest.sweep.executor import Collection, Work

Key = tuple[str, str, str]


def in_table_order(collections: Sequence[Collection]) -> list[Planned]:
    """Every collected unit, numbered: by file, by case, then by the kind of node it is for.

    So a case's rows of several cards stand beside each other.
    """
    by_file: dict[str, list[Planned]] = defaultdict(list)
    for each in collections:
        by_file[each.file] += each.planned
    ordered: list[Planned] = []
    for units in by_file.values():
        by_case: dict[str, list[Planned]] = defaultdict(list)
        for unit in units:
            by_case[unit.id].append(unit)
        ordered += [unit for same in by_case.values() for unit in same]
    return [replace(unit, position=n) for n, unit in enumerate(ordered)]


def longest_first(units: Iterable[Planned], expected: Mapping[Key, Expected]) -> list[Work]:
    """The units as work, the longest first, so that none is left over when the rest is done.

    What has not run yet is taken to last as long as the median of its function, of its file, or of
    all, and goes before what is known to last that long; a whole script that has not run goes
    first of all, since it holds many cases.
    """
    units = list(units)
    guess = _Guess(units, expected)
    work = [Work(unit, expected.get(unit.key)) for unit in units]
    return sorted(work, key=lambda each: _rank(each, guess))


def _rank(work: Work, guess: _Guess) -> tuple[bool, float, bool, int]:
    unknown_whole = work.planned.whole and work.expected is None
    known = work.expected is not None
    seconds = work.expected.seconds if work.expected is not None else guess.seconds(work.planned)
    return (not unknown_whole, -seconds, known, work.planned.position)


class _Guess:
    """How long a unit that has not run yet may take."""

    def __init__(self, units: Iterable[Planned], expected: Mapping[Key, Expected]) -> None:
        times: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for unit in units:
            if unit.key in expected:
                for group in _groups(unit):
                    times[group].append(expected[unit.key].seconds)
        self._medians = {group: statistics.median(found) for group, found in times.items()}

    def seconds(self, unit: Planned) -> float:
        """The median of its function, else of its file, else of all; 0 where nothing is known."""
        return next((self._medians[g] for g in _groups(unit) if g in self._medians), 0.0)


def _groups(unit: Planned) -> list[tuple[str, ...]]:
    return [(unit.file, unit.function), (unit.file,), ()]
