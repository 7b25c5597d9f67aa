"""The runs that a report is about, as the store has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optest.errors import UsageError
from optest.report.history import History, past_of
from optest.store.records import Peaks, Place, Result, Run

if TYPE_CHECKING:
    from optest.store import Store


@dataclass(frozen=True)
class Chosen:
    """What a page is made of.

    Attributes:
        runs: in the order in which they were asked for.
        results: of each run.
        peaks: measured ceilings, of each place that has any.
        history: medians of the same cases in earlier runs.
    """

    runs: Sequence[Run]
    results: Sequence[Sequence[Result]]
    peaks: dict[tuple[str, str], Peaks] = field(default_factory=dict)
    history: History = field(default_factory=History)

    @property
    def count(self) -> int:
        """Results of all runs."""
        return sum(map(len, self.results))

    def peaks_of(self, place: Place) -> Peaks | None:
        """The ceilings of the card that a case ran on."""
        return self.peaks.get((place.gfx, place.device))


def read(store: Store, refs: Sequence[str], past: int) -> Chosen:
    """Read the runs that ``refs`` mean, and up to ``past`` runs of the same cases.

    Raises:
        StoreError: a reference means no run, or several.
        UsageError: two mean the same run.
    """
    runs = [store.find(ref) for ref in refs]
    for position, run in enumerate(runs):
        if run.id in {each.id for each in runs[:position]}:
            raise UsageError(f"run {refs[position]!r}: it is {run.id}, which was given before it")
    results = [list(store.results(run.id)) for run in runs]
    every = [result for some in results for result in some]
    cards = cards_of(every).items()
    peaks = {key: found for key, place in cards if (found := store.peaks(place))}
    return Chosen(runs, results, peaks, past_of(store, runs, every, past))


def cards_of(results: Iterable[Result]) -> dict[tuple[str, str], Place]:
    """A place of each card that they ran on, by arch and device."""
    return {(each.place.gfx, each.place.device): each.place for each in results}
