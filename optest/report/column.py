"""A column of a table of the page: its cells by row, and of a timing what lies behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from optest import stats
from optest.report.cells import Cell, cell, is_number, number
from optest.store import columns
from optest.store.records import is_timing, is_verdict

FEWEST = 9  # quantiles that a distribution is never thinned below


@dataclass
class Column:
    """One column, filled row by row.

    Attributes:
        role: ``fact`` (of the run or the case), ``argument``, ``measure`` of a candidate.
        cells: by row; a row that lacks it has none.
        timings: by row, what a timing is besides its median.
        marks: by row, the status of a verdict that is no plain pass.
    """

    role: str
    candidate: str
    quantity: str
    cells: dict[int, Cell] = field(default_factory=dict)
    timings: dict[int, dict[str, Any]] = field(default_factory=dict)
    marks: dict[int, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As the table of the op test calls it."""
        return columns.joined(self.candidate, self.quantity)

    @property
    def samples(self) -> int:
        """Samples of all its timings."""
        return sum(len(each["samples_us"] or ()) for each in self.timings.values())

    def put(self, row: int, value: Any) -> None:  # noqa: ANN401 - any JSON type
        """Set the cell of a row from what the store holds."""
        self.cells[row] = cell(value)
        if is_timing(value):
            self.timings[row] = value
        elif is_verdict(value) and value.get("status") != "pass":
            self.marks[row] = str(value.get("status"))

    def as_json(self, rows: int, most: int) -> dict[str, Any]:
        """The column for the page; ``most`` samples of each timing."""
        found = [self.cells.get(row) for row in range(rows)]
        out: dict[str, Any] = {
            "name": self.name,
            "role": self.role,
            "candidate": self.candidate,
            "quantity": self.quantity,
            **_cells(found),
        }
        if self.marks:
            out["marks"] = {str(row): mark for row, mark in self.marks.items()}
        if self.timings:
            out["timing"] = _timings(self.timings, rows, most)
        return out


def coded(texts: Sequence[str | None]) -> dict[str, Any]:
    """Texts as numbers into a list of the distinct ones; None is -1."""
    words: dict[str, int] = {}
    codes = [-1 if text is None else words.setdefault(text, len(words)) for text in texts]
    return {"words": list(words), "codes": codes}


def _cells(found: Sequence[Cell]) -> dict[str, Any]:
    if all(value is None or is_number(value) for value in found):
        return {"numbers": list(found)}
    return coded([None if value is None else str(value) for value in found])


def _timings(timings: dict[int, dict[str, Any]], rows: int, most: int) -> dict[str, Any]:
    all_of_them = [timings.get(row) for row in range(rows)]
    intervals = [(each or {}).get("ci_us") or (None, None) for each in all_of_them]
    return {
        "low": [number(low) for low, _ in intervals],
        "high": [number(high) for _, high in intervals],
        "samples": [
            None if each is None else _thinned(each["samples_us"], most) for each in all_of_them
        ],
        "how": coded([None if each is None else _how(each) for each in all_of_them]),
    }


def _thinned(samples: Any, most: int) -> list[Cell]:  # noqa: ANN401 - a list, or None
    known = [float(each) for each in samples or () if isinstance(each, (int, float))]
    if len(known) > most:
        known.sort()
        known = [stats.quantile(known, n / (most - 1)) for n in range(most)]
    return [number(float(f"{each:.5g}")) for each in known]


def _how(timing: dict[str, Any]) -> str:
    """How it was measured, in words."""
    words = [
        f"{timing['clock']} clock" if timing.get("clock") else "",
        f"{timing['cache']} caches" if timing.get("cache") else "",
        "most samples preempted" if timing.get("contended") else "",
        *(f"launched {name}" for name in timing.get("kernels") or ()),
        *(timing.get("notes") or ()),
    ]
    return "; ".join(word for word in words if word)
