"""The rows of ``optest speedup`` as a markdown table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optest import stats
from optest.testing.speedup import Row, overall

_HEAD = "| benchmark | reference ms | kernel ms | speedup | 95 % interval | trials |"
_RULE = "|:--|--:|--:|--:|:-:|--:|"


def table(rows: Sequence[Row]) -> str:
    """The table, what is to be said against it, and a line that says what it comes to."""
    contended = [row.benchmark for row in rows if row.contended]
    notes = [f"contended, so that the times are too long: {', '.join(contended)}"]
    return "\n".join(
        [_HEAD, _RULE, *map(_line, rows), "", *(notes if contended else ()), _overall(rows)]
    )


def _line(row: Row) -> str:
    name = row.benchmark.replace("|", "\\|")
    cells = [
        name if row.counted else f"{name} (not counted)",
        f"{stats.median(row.reference_ms):.4g}",
        f"{stats.median(row.kernel_ms):.4g}",
        f"{row.speedup:.3g}x",
        _interval(row.interval),
        f"{len(row.reference_ms)}, {len(row.kernel_ms)}",
    ]
    return f"| {' | '.join(cells)} |"


def _interval(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{low:.3g} to {high:.3g}" if math.isfinite(high) else "too few trials"


def _overall(rows: Sequence[Row]) -> str:
    counted = [row for row in rows if row.counted]
    lows, highs = zip(*(row.interval for row in counted), strict=True)
    if len(counted) > 1:
        return f"overall: {overall(rows):.3g}x, the geometric mean of {len(counted)} benchmarks"
    low, high = lows[0], highs[0]
    text = f"overall: {overall(rows):.3g}x"
    if not math.isfinite(high):
        return f"{text}; too few trials to say how sure that is"
    if low <= 1.0 <= high:
        return f"{text}; the interval holds 1: no difference is shown"
    return f"{text}, the kernel is {'faster' if low > 1.0 else 'slower'}"
