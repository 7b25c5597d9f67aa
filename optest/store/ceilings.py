"""The ceilings of machines in the tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from optest.store.records import Ceiling, Peaks, Place
from optest.store.schema import peaks, places
from optest.store.text import restored, stored

if TYPE_CHECKING:
    from collections.abc import Sequence


def rows_of(measured: Peaks, place_number: int) -> list[dict[str, Any]]:
    """A row for each ceiling."""
    return [
        {
            "place_number": place_number,
            "measured": measured.measured,
            "kind": stored(each.kind),
            "name": stored(each.name),
            "threads": each.threads,
            "value": each.value,
            "nbytes": each.nbytes,
        }
        for each in measured.ceilings
    ]


def write(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Put the rows in the place of what there is of the same place and moment.

    So that a commit whose outcome was unknown may be done again.
    """
    first = rows[0]
    connection.execute(
        sa.delete(peaks).where(
            peaks.c.place_number == first["place_number"], peaks.c.measured == first["measured"]
        )
    )
    connection.execute(sa.insert(peaks), list(rows))


def newest(connection: sa.Connection, place: Place) -> tuple[int, float] | None:
    """Number of the place and moment of the newest ceilings that hold for ``place``.

    Of the same arch and device; what was measured on the same host comes first.
    """
    statement = (
        sa.select(peaks.c.place_number, peaks.c.measured)
        .join_from(peaks, places, places.c.number == peaks.c.place_number)
        .where(places.c.gfx == stored(place.gfx), places.c.device == stored(place.device))
        .order_by(
            sa.case((places.c.host == stored(place.host), 0), else_=1),
            peaks.c.measured.desc(),
            peaks.c.number.desc(),
        )
        .limit(1)
    )
    row = connection.execute(statement).first()
    return None if row is None else (row[0], row[1])


def read(connection: sa.Connection, place_number: int, measured: float) -> tuple[Ceiling, ...]:
    """The ceilings of one place and moment, in the order in which they were measured."""
    rows: Iterable[Any] = connection.execute(
        sa.select(peaks)
        .where(peaks.c.place_number == place_number, peaks.c.measured == measured)
        .order_by(peaks.c.number)
    )
    return tuple(
        Ceiling(restored(row.kind), restored(row.name), row.threads, row.value, row.nbytes)
        for row in rows
    )
