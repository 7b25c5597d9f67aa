"""A value of a row as a cell of the page: a number, a text, or nothing."""

from __future__ import annotations

import json
import math
from typing import Any

from optest.store.records import is_timing, is_verdict

Cell = float | int | str | None
_DIGITS = 6  # significant; more than any timing holds
_EXACT = 2**53  # integers above are not what JavaScript reads
_INFINITE = ("inf", "-inf")


def cell(value: Any) -> Cell:  # noqa: ANN401 - any JSON type in
    """What a table shows of it: of a timing its median, of a verdict its share."""
    if is_timing(value):
        return number(value["median_us"])
    if is_verdict(value):
        return number(value.get("value"))
    if value is None or isinstance(value, str):
        return None if value == "nan" else value
    if isinstance(value, (int, float)):
        return str(value) if isinstance(value, bool) else number(value)
    return json.dumps(value)


def number(value: Any) -> Cell:  # noqa: ANN401 - what should be a number
    """``value`` in six digits; None for NaN and for what is none, ``"inf"`` for infinity."""
    if value in _INFINITE:
        return str(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) <= _EXACT else rounded


def is_number(value: Cell) -> bool:
    """Whether a cell sorts as a number."""
    return isinstance(value, (int, float)) or value in _INFINITE
