"""A run as ``github-action-benchmark`` reads it, its tool ``customSmallerIsBetter``."""

from __future__ import annotations

import json
from typing import Any

from optest import stats
from optest.compare.side import Case, Cell, Side


def entries(side: Side) -> list[dict[str, Any]]:
    """One for each right and timed candidate of each case: what is wrong is no point of a curve."""
    return [
        _entry(case, candidate, cell)
        for case in side.cases
        for candidate, cell in case.cells.items()
        if cell.timed and not (cell.wrong or case.wrong)
    ]


def document(found: list[dict[str, Any]]) -> str:
    """The array that the action takes."""
    return json.dumps(found, allow_nan=False, indent=1) + "\n"


def _entry(case: Case, candidate: str, cell: Cell) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"{case.title} {candidate}".rstrip(),
        "unit": "us",
        "value": cell.us,
    }
    low, high = stats.median_interval(cell.samples) if cell.samples else (0.0, 0.0)
    if low > 0.0:
        entry["range"] = f"± {(high - low) / 2:.3g}"
    told = {"n": len(cell.samples) or "", "clock": cell.clock, "cache": cell.cache, "gfx": case.gfx}
    entry["extra"] = "\n".join(f"{name}: {value}" for name, value in told.items() if value)
    return entry
