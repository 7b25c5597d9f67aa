"""A test function of the report: its table, column by column, and what its pictures need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from optest.report.chosen import Chosen, cards_of
from optest.report.column import FEWEST, Column, coded
from optest.report.history import Past
from optest.store import columns
from optest.store.records import Peaks, Place, Result, is_timing
from optest.store.roofline import share_of_limit, short_dtype

SHARE = "share of limit"
_NO_ROW = ("skipped",)
_LONGEST = 500  # letters of what is said of a row
ALL_SAMPLES = 300_000  # of all sections together
_ARITHMETIC = ("quant_dtype", "dtype")  # the first that a case has is what its arithmetic is in


@dataclass
class Section:
    """One test function, of all runs.

    Attributes:
        columns: in the order in which the table shows them.
        results: a row each, with the position of its run.
    """

    file: str
    function: str
    results: list[tuple[int, Result]] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)

    @property
    def candidates(self) -> list[str]:
        """Those that were timed, in order."""
        return list(dict.fromkeys(each.candidate for each in self.columns if each.timings))

    @property
    def dtypes(self) -> list[str]:
        """Short names of the dtypes of the arithmetic, as ceilings are named."""
        return list(dict.fromkeys(name for _, r in self.results if (name := arithmetic(r))))

    @property
    def places(self) -> list[Place]:
        """The cards that its cases ran on."""
        return list(cards_of(result for _, result in self.results).values())


def sections(chosen: Chosen) -> list[Section]:
    """A section a test function, in the order of the results."""
    found: dict[tuple[str, str], Section] = {}
    for run, results in enumerate(chosen.results):
        for result in results:
            unit = result.planned
            if unit.whole or result.status in _NO_ROW:
                continue
            section = found.setdefault(
                (unit.file, unit.function), Section(unit.file, unit.function)
            )
            section.results.append((run, result))
    for section in found.values():
        section.columns = _columns(section.results, chosen)
    return list(found.values())


def samples_each(all_of_them: Iterable[Section]) -> int:
    """How many samples of a timing a page bears; a longer list is thinned to quantiles."""
    timed = [column for section in all_of_them for column in section.columns if column.timings]
    count = sum(len(column.timings) for column in timed)
    if sum(column.samples for column in timed) <= ALL_SAMPLES:
        return ALL_SAMPLES
    return max(FEWEST, ALL_SAMPLES // count)


def as_json(section: Section, chosen: Chosen, most_samples: int) -> dict[str, Any]:
    """The section for the page."""
    rows = [result for _, result in section.results]
    return {
        "file": section.file,
        "function": section.function,
        "rows": len(rows),
        "state": "status",
        "ids": [result.planned.id for result in rows],
        "reasons": coded([result.reason[:_LONGEST] or None for result in rows]),
        "notes": coded([_notes(result) or None for result in rows]),
        "cards": coded([card(result.place) for result in rows]),
        "columns": [column.as_json(len(rows), most_samples) for column in section.columns],
        "candidates": section.candidates,
        "dtypes": section.dtypes,
        "history": _histories(section, chosen),
    }


def pasts(section: Section, chosen: Chosen) -> Iterator[tuple[Column, int, Past]]:
    """Each timing of the section that several runs have: its column, row and past."""
    for column in section.columns:
        for row in column.timings:
            past = chosen.history.past(section.results[row][1], column.name)
            if past is not None:
                yield column, row, past


def _notes(result: Result) -> str:
    """What a reader of a row's numbers has to know."""
    beside = result.neighbours
    words = [
        f"timed beside {beside} other cases on the same machine: its times are upper bounds"
        if beside
        else "",
        f"not guarded: {', '.join(result.unguarded)}" if result.unguarded else "",
        f"left changed in its process: {', '.join(result.left)}" if result.left else "",
    ]
    return "; ".join(word for word in words if word)[:_LONGEST]


def card(place: Place) -> str:
    """What tells cards apart for a reader."""
    return " ".join(word for word in (place.gfx, place.device) if word)


def arithmetic(result: Result) -> str:
    """Short name of the dtype that a case computes in, by its arguments; empty where none says."""
    for name in _ARITHMETIC:
        value = result.planned.arguments.get(name)
        if isinstance(value, str):
            return short_dtype(value)
    return ""


def _columns(results: Sequence[tuple[int, Result]], chosen: Chosen) -> list[Column]:
    table = _Table()
    several = len(chosen.runs) > 1
    for row, (run, result) in enumerate(results):
        if several:
            table.put(row, "fact", "", "run", chosen.runs[run].id)
        table.put(row, "fact", "", "status", result.status)
        for name, value in result.planned.arguments.items():
            table.put(row, "argument", "", name, value)
        table.put(row, "fact", "", "gfx", result.row.get("gfx", result.place.gfx))
        peaks = chosen.peaks_of(result.place)
        for candidate, quantity, value in _measured(result, peaks):
            table.put(row, "measure", candidate, quantity, value)
    return table.in_order()


def _measured(result: Result, peaks: Peaks | None) -> Iterator[tuple[str, str, Any]]:
    """Candidate, quantity and value of each cell behind the arguments."""
    for candidate, quantities in columns.by_candidate(result.row).items():
        for quantity, value in quantities.items():
            if candidate or quantity != "gfx":
                yield candidate, quantity, value
        if peaks is not None and any(is_timing(value) for value in quantities.values()):
            share = share_of_limit(quantities, peaks, arithmetic(result))
            if share == share:  # noqa: PLR0124 - not NaN
                yield candidate, SHARE, share


class _Table:
    """Columns by what they are about, in the order in which they turn up."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str, str], Column] = {}

    def put(self, row: int, role: str, candidate: str, quantity: str, value: object) -> None:
        key = (role, candidate, quantity)
        if key not in self._columns:
            self._columns[key] = Column(role, candidate, quantity)
        self._columns[key].put(row, value)

    def in_order(self) -> list[Column]:
        """Facts and arguments as they came, then the candidates one after the other."""
        every = list(self._columns.values())
        rank = {name: n for n, name in enumerate(dict.fromkeys(c.candidate for c in every))}
        first = [each for each in every if each.role != "measure"]
        return first + sorted(
            (each for each in every if each.role == "measure"),
            key=lambda each: rank[each.candidate],
        )


def _histories(section: Section, chosen: Chosen) -> dict[str, dict[str, list[Any]]]:
    """By column, the rows that have a past: positions of runs, medians, and changes."""
    out: dict[str, dict[str, list[Any]]] = {}
    for column, row, past in pasts(section, chosen):
        medians = [float(f"{value:.5g}") for value in past.medians]
        steps = [[each.at, float(f"{each.ratio:.4g}")] for each in past.changes]
        out.setdefault(column.name, {})[str(row)] = [past.positions, medians, steps]
    return out
