"""Rows as a markdown table: every cell one line, numbers readable, nothing reinterpreted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from optest.cases import text
from optest.checking import Verdict
from optest.line import escaped

_WHOLE_FROM = 99999.5  # from where five digits leave no room for a fraction
_LARGE_FROM = 1e15  # from where a float's digits are no longer all its own
_SMALL_BELOW = 1e-4


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A pipe table of the rows, columns in the order in which they first appear.

    Numbers are right-aligned; a missing or untimed value is an empty cell; text is never read as a
    number; pipes, line breaks and control characters are escaped.
    """
    from tabulate import tabulate

    columns = columns_of(rows)
    cells = [[cell(row.get(column, "")) for column in columns] for row in rows]
    align = ["right" if _is_numeric(rows, column) else "left" for column in columns]
    heads = [_escape(str(column)) for column in columns]
    return tabulate(
        cells, headers=heads, tablefmt="pipe", colalign=align if rows else (), disable_numparse=True
    )


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every key of every row, in order of first appearance."""
    return list(dict.fromkeys(key for row in rows for key in row))


def cell(value: object) -> str:  # noqa: PLR0911 - one line a kind
    """Text of one cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, Verdict):
        return _number(float(value)) + ("" if value.passed else " FAIL")
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return _escape(value)
    return _escape(_of_scalar(value))


def _of_scalar(value: object) -> str:
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", None) == 0:  # a 0-dim tensor, a NumPy scalar
        return cell(item())
    return text.of_value(value)


def _number(value: float) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return str(value)
    if _WHOLE_FROM <= abs(value) < _LARGE_FROM:
        return f"{value:.0f}"
    if 0 < abs(value) < _SMALL_BELOW:
        return f"{value:.2g}"
    return f"{value:.5g}"


def _escape(words: str) -> str:
    return escaped(" ".join(words.splitlines())).replace("|", "\\|")


def _is_numeric(rows: Sequence[Mapping[str, Any]], column: str) -> bool:
    values = [row[column] for row in rows if row.get(column) is not None]
    return bool(values) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in values
    )
