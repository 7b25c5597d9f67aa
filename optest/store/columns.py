"""What a column's name says: ``cpp us`` is the quantity ``us`` of the candidate ``cpp``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optest.store.records import is_timing, is_verdict


def split(column: str) -> tuple[str, str]:
    """Candidate and quantity of a column; the candidate is empty where there is but one word."""
    candidate, _, quantity = column.rpartition(" ")
    return (candidate, quantity) if candidate and quantity else ("", column)


def joined(candidate: str, quantity: str) -> str:
    """The inverse of ``split``."""
    return f"{candidate} {quantity}" if candidate else quantity


def by_candidate(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Quantities of each candidate in order; those of the case as a whole stand under ``""``.

    Words that nothing numeric follows, as in ``best kernel``, name no candidate: such a column
    belongs to the case, under its whole name.
    """
    pairs = [(column, *split(column)) for column in row]
    real = {candidate for column, candidate, _ in pairs if _measured(row[column])}
    out: dict[str, dict[str, Any]] = {}
    for column, candidate, quantity in pairs:
        if candidate in real:
            out.setdefault(candidate, {})[quantity] = row[column]
        else:
            out.setdefault("", {})[column] = row[column]
    return out


def _measured(value: object) -> bool:
    if isinstance(value, dict):
        return is_timing(value) or is_verdict(value)
    return value is None or isinstance(value, (int, float)) or value in ("inf", "-inf", "nan")
