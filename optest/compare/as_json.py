"""A comparison for programs."""

from __future__ import annotations

import json
import math
from typing import Any

from optest.compare.comparison import Comparison, Line
from optest.compare.family import Mean

VERSION = 1


def document(comparison: Comparison) -> str:
    """JSON in one object, lines worst first; what is not known is null. ``docs/compare.md``."""
    # A row each by itself: what is fast in json does not indent.
    head = {name: json.dumps(value, allow_nan=False) for name, value in _head(comparison).items()}
    rows = [json.dumps(_line(line), allow_nan=False) for line in comparison.worst_first]
    parts = [f"{json.dumps(name)}: {value}" for name, value in head.items()]
    parts.append('"lines": [\n  ' + ",\n  ".join(rows) + "\n ]" if rows else '"lines": []')
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def _head(comparison: Comparison) -> dict[str, Any]:
    return {
        "optest_compare": VERSION,
        "base": comparison.base,
        "head": comparison.head,
        "machine": comparison.machine,
        "threshold": comparison.threshold,
        "exit_code": comparison.exit_code,
        "differences": list(comparison.differences),
        "notes": list(comparison.notes),
        "counts": {str(verdict): count for verdict, count in comparison.counts.items()},
        "means": {name: _mean(mean) for name, mean in comparison.means.items()},
    }


def _mean(mean: Mean) -> dict[str, Any]:
    return {"ratio": mean.ratio, "interval": _interval(mean.low, mean.high), "cases": mean.count}


def _line(line: Line) -> dict[str, Any]:
    return {
        "case": line.case,
        "candidate": line.candidate,
        "file": line.file,
        "verdict": str(line.verdict),
        "base_us": _number(line.base_us),
        "head_us": _number(line.head_us),
        "ratio": _number(line.ratio),
        "interval": _interval(line.low, line.high),
        "p": _number(line.p),
        "reason": line.reason,
        "notes": list(line.notes),
        "failure": line.failure,
        "regression": line.regression,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _interval(low: float, high: float) -> list[float] | None:
    return [low, high] if low > 0.0 and math.isfinite(high) else None
