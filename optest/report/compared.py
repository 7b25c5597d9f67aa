"""Two runs side by side, as the page shows them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from optest.compare import judge, results
from optest.errors import UsageError
from optest.report.cells import number
from optest.report.chosen import Chosen
from optest.report.column import coded

if TYPE_CHECKING:
    from optest.compare.comparison import Comparison, Line

_PAIR = 2
_LONGEST = 500


def compared(chosen: Chosen) -> dict[str, Any] | None:
    """The second of two runs against the first, worst first; None where there are not two.

    Runs that were not measured alike are compared all the same, and their differences named.
    """
    if len(chosen.runs) != _PAIR:
        return None
    base, head = (
        results.side(run.id, found, run.facts)
        for run, found in zip(chosen.runs, chosen.results, strict=True)
    )
    try:
        found = judge.compared(base, head, judge.Rule(across=True))
    except UsageError as error:
        return {"base": base.name, "head": head.name, "fault": str(error)}
    return _as_json(found)


def _as_json(found: Comparison) -> dict[str, Any]:
    lines = found.worst_first
    return {
        "base": found.base,
        "head": found.head,
        "differences": list(found.differences),
        "notes": list(found.notes),
        "counts": {str(verdict): count for verdict, count in found.counts.items()},
        "means": [
            {"candidate": name, "ratio": mean.ratio, "low": mean.low, "high": number(mean.high)}
            for name, mean in found.means.items()
        ],
        "table": _table(lines),
    }


def _table(lines: list[Line]) -> dict[str, Any]:
    """The lines as a section of the page has its rows."""

    def texts(name: str, of: Callable[[Line], str | None]) -> dict[str, Any]:
        return {"name": name, "role": "fact", **_named(name), **coded([of(line) for line in lines])}

    def numbers(name: str, of: Callable[[Line], float]) -> dict[str, Any]:
        values = [_known(of(line)) for line in lines]
        return {"name": name, "role": "measure", **_named(name), "numbers": values}

    return {
        "function": "comparison",
        "file": "",
        "rows": len(lines),
        "state": "verdict",
        "ids": [line.case for line in lines],
        "reasons": coded([line.reason[:_LONGEST] or None for line in lines]),
        "notes": coded(["; ".join(line.notes) or None for line in lines]),
        "bad": [row for row, line in enumerate(lines) if line.bad],
        "columns": [
            texts("verdict", lambda line: str(line.verdict)),
            texts("id", lambda line: line.case),
            texts("candidate", lambda line: line.candidate),
            numbers("base us", lambda line: line.base_us),
            numbers("head us", lambda line: line.head_us),
            numbers("change", lambda line: line.ratio),
            numbers("from", lambda line: line.low or math.nan),
            numbers("to", lambda line: line.high),
            numbers("p", lambda line: line.p),
        ],
    }


def _named(name: str) -> dict[str, str]:
    return {"candidate": "", "quantity": name}


def _known(value: float) -> Any:  # noqa: ANN401 - a cell
    return number(value) if math.isfinite(value) else None
