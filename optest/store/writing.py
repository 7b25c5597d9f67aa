"""What changes the tables. Each function is the work of one transaction, and may be run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from optest.store.dialects import insert, insert_new
from optest.store.encode import Rows
from optest.store.schema import cases, failures, measures, runs, verdicts

Row = dict[str, Any]

_FIND = (
    sa.select(cases.c.number, cases.c.status)
    .where(
        cases.c.run_number == sa.bindparam("of_run"), cases.c.digest == sa.bindparam("of_digest")
    )
    .with_for_update()
)
# As nearly always: planned, and without a result as yet.
_FILL = (
    sa.update(cases)
    .where(
        cases.c.run_number == sa.bindparam("of_run"),
        cases.c.digest == sa.bindparam("of_digest"),
        cases.c.status.is_(None),
    )
    .returning(cases.c.number)
)
_UPDATE = sa.update(cases).where(cases.c.number == sa.bindparam("of_number"))
_PARTS = (measures, verdicts, failures)
_DELETE = [sa.delete(part).where(part.c.case_number == sa.bindparam("of_case")) for part in _PARTS]
_INSERT_MEASURES, _INSERT_VERDICTS, _INSERT_FAILURES = (sa.insert(part) for part in _PARTS)


def begin(connection: sa.Connection, run: Row) -> bool:
    """Add a run; False where another run has its id already."""
    found = connection.execute(
        sa.select(runs.c.started, runs.c.place_number).where(runs.c.id == run["id"])
    ).first()
    if found is not None:  # ours, where a commit went through and its answer did not
        return bool(found.started == run["started"] and found.place_number == run["place_number"])
    connection.execute(sa.insert(runs), run)
    return True


def set_state(connection: sa.Connection, run_number: int, state: str, ended: float | None) -> None:
    """Say that a run has ended, or goes on."""
    connection.execute(
        sa.update(runs).where(runs.c.number == run_number).values(state=state, ended=ended)
    )


def plan(connection: sa.Connection, run_number: int, planned: Sequence[Row]) -> None:
    """Add the units that are new; one that a whole script ran unplanned is planned from now on."""
    new = insert(connection, cases)
    connection.execute(
        new.on_conflict_do_update(
            index_elements=["run_number", "digest"],
            set_={"planned": True},
            where=cases.c.planned.is_(False),
        ),
        [{"run_number": run_number, "planned": True, **row} for row in planned],
    )


def record(
    connection: sa.Connection, run_number: int, rows: Rows, candidates: Mapping[str, int]
) -> None:
    """Put a result in the place of whatever was there of its unit."""
    number = _filled(connection, run_number, rows.case)
    if number is None:
        number = _replaced(connection, run_number, rows.case)
    if rows.measures:
        connection.execute(
            _INSERT_MEASURES,
            [
                {**row, "case_number": number, "candidate_number": candidates[row["candidate"]]}
                for row in rows.measures
            ],
        )
    if rows.verdicts:
        connection.execute(
            _INSERT_VERDICTS, [{**row, "case_number": number} for row in rows.verdicts]
        )
    if rows.failure:
        connection.execute(_INSERT_FAILURES, {**rows.failure, "case_number": number})


def _filled(connection: sa.Connection, run_number: int, case: Row) -> int | None:
    """The number of a unit that was waiting for its result, and has it now."""
    if not connection.dialect.update_returning:  # SQLite before 3.35
        return None
    key = {"of_run": run_number, "of_digest": case["digest"]}
    return connection.execute(_FILL, {**key, **case}).scalar()


def _replaced(connection: sa.Connection, run_number: int, case: Row) -> int:
    """The number of a unit that has this result now, and no part of an earlier one."""
    number, had_result = _case(connection, run_number, case)
    if had_result:
        for statement in _DELETE:
            connection.execute(statement, {"of_case": number})
    connection.execute(_UPDATE, {"of_number": number, **case})
    return number


def _case(connection: sa.Connection, run_number: int, case: Row) -> tuple[int, bool]:
    """The number of a unit, and whether it has a result; added where it was not planned."""
    key = {"of_run": run_number, "of_digest": case["digest"]}
    found = connection.execute(_FIND, key).first()
    if found is None:
        row = {"run_number": run_number, "planned": False, **case}
        connection.execute(insert_new(connection, cases), row)
        found = connection.execute(_FIND, key).one()
        return found.number, False
    return found.number, found.status is not None
