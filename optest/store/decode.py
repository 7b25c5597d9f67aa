"""Rows of the tables as records again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from optest.store import columns, packing
from optest.store.records import Place, Planned, Result
from optest.store.schema import candidates, cases, failures, measures, verdicts
from optest.store.text import loads, restored

_Row = Any  # of SQLAlchemy; its type lists the columns one by one

PLANNED = (
    cases.c.id,
    cases.c.file,
    cases.c.function,
    cases.c.arguments,
    cases.c.node,
    cases.c.position,
    cases.c.table_name,
)
_OUTCOME = (
    cases.c.number,
    cases.c.status,
    cases.c.seconds,
    cases.c.started,
    cases.c.seed,
    cases.c.peak_bytes,
    cases.c.device_peak_bytes,
    cases.c.neighbours,
    cases.c.place_number,
    cases.c.findings,
    cases.c.unguarded,
    cases.c.left_changed,
    failures.c.reason,
    failures.c.text,
)

_wanted: sa.BindParameter[Sequence[int]] = sa.bindparam("wanted", expanding=True)
_CASES = (
    sa.select(*PLANNED, *_OUTCOME)
    .outerjoin_from(cases, failures, failures.c.case_number == cases.c.number)
    .where(cases.c.number.in_(_wanted), cases.c.status.is_not(None))
)
_MEASURES = (
    sa.select(
        measures.c.case_number,
        candidates.c.name,
        measures.c.quantity,
        measures.c.kind,
        measures.c.value,
        measures.c.detail,
        measures.c.samples,
        measures.c.check_position,
    )
    .join_from(measures, candidates, candidates.c.number == measures.c.candidate_number)
    .where(measures.c.case_number.in_(_wanted))
    .order_by(measures.c.case_number, measures.c.position)
)
_VERDICTS = (
    sa.select(verdicts.c.case_number, verdicts.c.detail)
    .where(verdicts.c.case_number.in_(_wanted))
    .order_by(verdicts.c.case_number, verdicts.c.position)
)


def planned_of(row: Sequence[Any]) -> Planned:
    """The unit whose columns ``PLANNED`` the row begins with."""
    identity, file, function, arguments, node, position, table = row[:7]
    return Planned(
        restored(identity),
        restored(file),
        restored(function),
        loads(arguments),
        restored(node),
        position,
        restored(table),
    )


def results_of(
    connection: sa.Connection, numbers: Sequence[int], places: Mapping[int, Place]
) -> list[Result]:
    """The results of the cases with these numbers, in this order; none for those without one."""
    wanted = {"wanted": list(numbers)}
    checks: dict[int, list[dict[str, Any]]] = {}
    for number, detail in connection.execute(_VERDICTS, wanted):
        checks.setdefault(number, []).append(loads(detail))
    columns_of = _grouped(connection.execute(_MEASURES, wanted))
    found = {
        row.number: _result(row, checks.get(row.number, []), columns_of.get(row.number, []), places)
        for row in connection.execute(_CASES, wanted)
    }
    return [found[number] for number in numbers if number in found]


def _grouped(rows: Iterable[_Row]) -> dict[int, list[_Row]]:
    out: dict[int, list[_Row]] = {}
    for row in rows:
        out.setdefault(row[0], []).append(row)
    return out


def _result(
    row: _Row,
    checks: list[dict[str, Any]],
    measured: list[_Row],
    places: Mapping[int, Place],
) -> Result:
    return Result(
        planned=planned_of(row),
        status=restored(row.status),
        reason=restored(row.reason or ""),
        text=restored(row.text or ""),
        seconds=row.seconds or 0.0,
        seed=row.seed,
        row={
            columns.joined(restored(each.name), restored(each.quantity)): _value(each, checks)
            for each in measured
        },
        checks=checks,
        findings=loads(row.findings or "[]"),
        unguarded=loads(row.unguarded or "[]"),
        left=loads(row.left_changed or "[]"),
        peak_bytes=row.peak_bytes,
        device_peak_bytes=row.device_peak_bytes,
        neighbours=row.neighbours,
        place=places[row.place_number],
        started=row.started or 0.0,
    )


def _value(row: _Row, checks: list[dict[str, Any]]) -> object:
    if row.check_position is not None:
        return checks[row.check_position]["verdict"]
    if row.detail is None:
        return row.value
    value = loads(row.detail)
    if row.samples is not None:
        value["samples_us"] = packing.unpacked(row.samples)
    return value
