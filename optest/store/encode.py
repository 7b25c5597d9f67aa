"""Records as rows of the tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optest.store import columns, packing
from optest.store.records import Planned, Result, is_timing, is_verdict
from optest.store.schema import digest, id_hash
from optest.store.text import bounded, dumps, stored

Row = dict[str, Any]
_LONGEST_REASON = 4_000


@dataclass(frozen=True)
class Rows:
    """What one result is in each table, before its case and its candidates have numbers."""

    case: Row
    measures: list[Row]
    verdicts: list[Row]
    failure: Row | None


def planned_row(planned: Planned) -> Row:
    """The columns of ``cases`` that are known before it ran."""
    return {
        "digest": digest(planned.key),
        "id_hash": id_hash(planned.id),
        "id": stored(planned.id),
        "file": stored(planned.file),
        "function": stored(planned.function),
        "arguments": dumps(planned.arguments),
        "node": stored(planned.where),
        "position": planned.position,
        "table_name": stored(planned.table),
    }


def rows_of(result: Result) -> Rows:
    """Every row of a result."""
    said = [_check(position, check) for position, check in enumerate(result.checks)]
    known = {text: position for position, (text, _) in enumerate(said) if text}
    measures = [
        _measure(position, column, value, known)
        for position, (column, value) in enumerate(result.row.items())
    ]
    return Rows(_case(result), measures, [row for _, row in said], _failure(result))


def _case(result: Result) -> Row:
    return {
        **planned_row(result.planned),
        "status": stored(result.status),
        "seconds": _number(result.seconds),
        "started": _number(result.started),
        "seed": result.seed,
        "peak_bytes": result.peak_bytes,
        "device_peak_bytes": result.device_peak_bytes,
        "neighbours": result.neighbours,
        "findings": dumps(result.findings) if result.findings else None,
        "unguarded": dumps(result.unguarded) if result.unguarded else None,
        "left_changed": dumps(result.left) if result.left else None,
    }


def _failure(result: Result) -> Row | None:
    if not result.reason and not result.text:
        return None
    reason = bounded(result.reason, _LONGEST_REASON)
    return {"reason": stored(reason), "text": stored(bounded(result.text))}


def _check(position: int, check: Mapping[str, Any]) -> tuple[str, Row]:
    """The verdict's JSON, empty where there is none, and the row of the check."""
    row: Row = {"position": position, "status": None, "value": None}
    verdict = check.get("verdict")
    if len(check) != 1 or not isinstance(verdict, dict):
        return "", {**row, "detail": dumps(check)}
    text = dumps(verdict)
    row.update(status=stored(str(verdict.get("status", ""))), value=_number(verdict.get("value")))
    return text, {**row, "detail": f'{{"verdict": {text}}}'}


def _measure(position: int, column: str, value: object, known: Mapping[str, int]) -> Row:
    candidate, quantity = columns.split(column)
    row: Row = {
        "position": position,
        "candidate": candidate,
        "quantity": stored(quantity),
        "kind": "number",
        "value": _number(value),
        "detail": None,
        "samples": None,
        "check_position": None,
    }
    if is_timing(value):
        assert isinstance(value, dict)
        _timing(row, value)
    elif is_verdict(value):
        assert isinstance(value, dict)
        text = dumps(value)
        position_of_check = known.get(text)
        row.update(kind="verdict", value=_number(value.get("value")))
        row.update(check_position=position_of_check)
        row.update(detail=text if position_of_check is None else None)
    elif value is not None and not isinstance(value, float):
        row.update(kind="other", detail=dumps(bounded(value) if isinstance(value, str) else value))
    elif isinstance(value, float) and (math.isinf(value) or str(value) == "-0.0"):
        row.update(kind="other", detail=dumps(value))  # SQLite keeps no sign of a zero
    return row


def _timing(row: Row, value: dict[str, Any]) -> None:
    samples = packing.packed(value["samples_us"])
    rest = value if samples is None else {**value, "samples_us": None}
    row.update(kind="timing", value=_number(value["median_us"]))
    row.update(detail=dumps(rest), samples=samples)


def _number(value: object) -> float | None:
    """What a column of numbers can hold of it."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
