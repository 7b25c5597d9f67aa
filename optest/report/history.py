"""Medians of the same cases in earlier runs, on the same machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optest.report.changes import Change, changes
from optest.store.records import Result, Run

if TYPE_CHECKING:
    from optest.store import Store

Key = tuple[tuple[str, str, str], tuple[str, str, str]]  # the unit, and the machine
_MOST = 400_000  # medians in a page
_SEEN = 200  # newest runs of the store that are looked through
_FEWEST = 2  # runs that make a past
_TIMED = "run"  # mode of the runs that measure


@dataclass(frozen=True)
class Past:
    """A timing of one case, run by run.

    Attributes:
        positions: of the runs that have it, oldest first.
        medians: theirs, in µs.
        changes: where these moved for good.
    """

    positions: Sequence[int]
    medians: Sequence[float]
    changes: Sequence[Change]


@dataclass(frozen=True)
class History:
    """What earlier runs measured.

    Attributes:
        runs: oldest first; the reported runs are among them.
        medians: by case and column, by position among the runs the median in µs.
        left_out: how many runs fewer than asked for, as a page bears no more medians.
    """

    runs: Sequence[Run] = ()
    medians: Mapping[tuple[Key, str], Mapping[int, float]] = field(default_factory=dict)
    left_out: int = 0

    def past(self, result: Result, column: str) -> Past | None:
        """One column of one case; None where not two runs have it."""
        known = self.medians.get((key_of(result), column), {})
        if len(known) < _FEWEST:
            return None
        positions = sorted(known)
        medians = [known[position] for position in positions]
        return Past(positions, medians, changes(medians))


def key_of(result: Result) -> Key:
    """What makes two results the same case on the same machine."""
    place = result.place
    return (result.planned.key, (place.host, place.gfx, place.device))


def past_of(store: Store, runs: Sequence[Run], results: Iterable[Result], most: int) -> History:
    """The medians that up to ``most`` runs have of the cases of ``results``.

    Runs that only checked have none. The newest ones are taken, none newer than the newest of
    ``runs``; fewer where they would hold more medians than a page bears.
    """
    if most == 0:
        return History()
    wanted = {key_of(result) for result in results}
    last = max((run.started for run in runs), default=0.0)
    timed = [run for run in store.runs(_SEEN) if run.facts.mode == _TIMED and run.started <= last]
    found: list[tuple[Run, dict[tuple[Key, str], float]]] = []
    held = left_out = 0
    for run in timed:
        if len(found) == most or left_out:
            break
        of_run = {
            ((each.unit, each.machine), each.column): each.value_us
            for each in store.medians(run.id)
            if (each.unit, each.machine) in wanted
        }
        if not of_run:
            continue
        held += len(of_run)
        if found and held > _MOST:
            left_out = most - len(found)
        else:
            found.append((run, of_run))
    return _joined(found[::-1], left_out)


def _joined(found: Sequence[tuple[Run, Mapping[tuple[Key, str], float]]], left_out: int) -> History:
    medians: dict[tuple[Key, str], dict[int, float]] = {}
    for position, (_, of_run) in enumerate(found):
        for key, value in of_run.items():
            medians.setdefault(key, {})[position] = value
    return History([run for run, _ in found], medians, left_out)
