"""What is asked of the tables. Each function is the work of one transaction that only reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from optest.store.catalogue import place_of
from optest.store.decode import PLANNED, planned_of
from optest.store.records import BAD, Expected, Planned, Run, RunFacts
from optest.store.schema import cases, id_hash, places, runs
from optest.store.text import loads, restored, stored

_CHUNK = 500  # SQLite bears 999 parameters everywhere
_MEASURED = ("passed", "empty")  # of what was skipped no time is known
_of_run = cases.c.run_number == sa.bindparam("of_run")
_RUNS = sa.select(
    runs, places.c.host, places.c.gfx, places.c.device, places.c.driver, places.c.versions
).join_from(runs, places, places.c.number == runs.c.place_number)
_in_order = (cases.c.position, cases.c.number)
_PLANNED = sa.select(*PLANNED).where(_of_run, cases.c.planned).order_by(*_in_order)
_MISSING = _PLANNED.where(sa.or_(cases.c.status.is_(None), cases.c.status.in_(BAD)))
_DONE = (
    sa.select(cases.c.number, cases.c.place_number)
    .where(_of_run, cases.c.status.is_not(None))
    .order_by(*_in_order)
)


def run_number(connection: sa.Connection, run: str) -> int | None:
    """The number of the run with exactly this id."""
    return connection.execute(sa.select(runs.c.number).where(runs.c.id == run)).scalar()


def planned(connection: sa.Connection, run_number: int) -> list[Planned]:
    """Every planned unit in order."""
    return [planned_of(row) for row in connection.execute(_PLANNED, {"of_run": run_number})]


def missing(connection: sa.Connection, run_number: int) -> list[Planned]:
    """The planned units without a good result, in order."""
    return [planned_of(row) for row in connection.execute(_MISSING, {"of_run": run_number})]


def done(connection: sa.Connection, run_number: int) -> list[tuple[int, int]]:
    """Numbers of the cases that have a result, and of their places, in order."""
    rows = connection.execute(_DONE, {"of_run": run_number})
    return [(row[0], row[1]) for row in rows]


def some_runs(connection: sa.Connection, numbers: Sequence[int]) -> list[Run]:
    """The runs with these numbers, in this order."""
    rows = connection.execute(_RUNS.where(runs.c.number.in_(numbers)))
    totals = _totals(connection, numbers)
    found = {row.number: _run(row, totals.get(row.number, {})) for row in rows}
    return [found[number] for number in numbers]


def _totals(connection: sa.Connection, numbers: Sequence[int]) -> dict[int, dict[str, int]]:
    rows = connection.execute(
        sa.select(cases.c.run_number, cases.c.status, sa.func.count())
        .where(cases.c.run_number.in_(numbers))
        .group_by(cases.c.run_number, cases.c.status)
    )
    out: dict[int, dict[str, int]] = {}
    for number, status, count in rows:
        out.setdefault(number, {})["missing" if status is None else restored(status)] = count
    return out


def _run(row: Any, totals: dict[str, int]) -> Run:  # noqa: ANN401 - a row, however long
    facts = RunFacts(
        commit=restored(row.commit_hash),
        branch=restored(row.branch),
        dirty=row.dirty,
        mode=restored(row.mode),
        optest=restored(row.optest),
        place=place_of(row),
        environment=loads(row.environment),
        arguments=loads(row.arguments),
    )
    return Run(row.id, facts, row.state, row.started, row.ended, totals)


def newest(connection: sa.Connection, limit: int) -> list[int]:
    """Numbers of the newest runs, newest first."""
    order = sa.select(runs.c.number).order_by(runs.c.number.desc()).limit(limit)
    return list(connection.execute(order).scalars())


def named(connection: sa.Connection, ref: str) -> tuple[list[int], bool]:
    """Numbers of the runs that ``ref`` may mean, newest first, and whether they are rivals.

    An id, else a branch, else the beginning of an id, else the beginning of a commit. Of a branch
    or a commit the newest run is meant; the beginning of an id must fit one id alone.
    """
    text = stored(ref)
    begins = sa.func.substr(runs.c.id, 1, len(text)) == text
    for meaning in (
        runs.c.id == text,
        runs.c.branch == text,
        begins,
        sa.func.substr(runs.c.commit_hash, 1, len(text)) == text.lower(),
    ):
        found = sa.select(runs.c.number).where(meaning).order_by(runs.c.number.desc())
        if ref and (numbers := list(connection.execute(found).scalars())):
            return numbers, meaning is begins and len(numbers) > 1
    return [], False


def latest(
    connection: sa.Connection, case_id: str, gfx: str, mode: str, statuses: Sequence[str]
) -> tuple[int, int] | None:
    """Number and place of the newest result of a case; empty words ask for nothing."""
    statement = (
        _results(gfx, mode, statuses)
        .where(cases.c.id_hash == id_hash(case_id), cases.c.id == stored(case_id))
        .order_by(cases.c.run_number.desc(), cases.c.number.desc())
        .limit(1)
    )
    row = connection.execute(statement).first()
    return None if row is None else (row[0], row[1])


def _results(gfx: str, mode: str, statuses: Sequence[str]) -> sa.Select[Any]:
    statement = sa.select(cases.c.number, cases.c.place_number)
    if mode:
        statement = statement.join(runs, runs.c.number == cases.c.run_number)
        statement = statement.where(runs.c.mode == stored(mode))
    if gfx:
        statement = statement.join(places, places.c.number == cases.c.place_number)
        statement = statement.where(places.c.gfx == stored(gfx))
    if statuses:
        return statement.where(cases.c.status.in_(statuses))
    return statement.where(cases.c.status.is_not(None))


def expected(
    connection: sa.Connection, ids: Iterable[str], gfx: str, mode: str
) -> dict[str, Expected]:
    """By id, what the newest measured result of a case says of the next."""
    hashes = sorted({id_hash(each) for each in ids})
    out: dict[str, Expected] = {}
    for start in range(0, len(hashes), _CHUNK):
        newest_of_each = (
            _results(gfx, mode, _MEASURED)
            .with_only_columns(sa.func.max(cases.c.number))
            .where(cases.c.id_hash.in_(hashes[start : start + _CHUNK]))
            .group_by(cases.c.id_hash)
        )
        rows = connection.execute(
            sa.select(
                cases.c.id, cases.c.seconds, cases.c.peak_bytes, cases.c.device_peak_bytes
            ).where(cases.c.number.in_(newest_of_each))
        )
        for identity, seconds, peak, device_peak in rows:
            out[restored(identity)] = Expected(seconds or 0.0, peak, device_peak)
    return out
