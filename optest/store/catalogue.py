"""Numbers of what many rows share: the names of candidates, the places that things ran on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from optest.store.dialects import insert_new
from optest.store.records import Place
from optest.store.schema import candidates, digest, places
from optest.store.text import dumps, loads, restored, stored

if TYPE_CHECKING:
    from optest.store.database import Database


class Catalogue:
    """Numbers by what they stand for; what is new gets a number in a transaction of its own.

    A row of it that nothing points to harms nobody, so it may stay where its user failed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._numbers: dict[str, int] = {}
        self._places: dict[int, Place] = {}

    def candidates(self, names: Iterable[str]) -> dict[str, int]:
        """The number of each name."""
        digests = {name: digest(("candidate", name)).hex() for name in names}
        new = [
            {"digest": key, "name": stored(name)}
            for name, key in digests.items()
            if key not in self._numbers
        ]
        self._add(candidates, new)
        return {name: self._numbers[key] for name, key in digests.items()}

    def place(self, place: Place) -> int:
        """The number of a place."""
        row = {
            "host": stored(place.host),
            "gfx": stored(place.gfx),
            "device": stored(place.device),
            "driver": stored(place.driver),
            "versions": dumps(place.versions),
        }
        key = digest(("place", *row.values())).hex()
        if key not in self._numbers:
            self._add(places, [{"digest": key, **row}])
        return self._numbers[key]

    def places(self, connection: sa.Connection, numbers: Iterable[int]) -> dict[int, Place]:
        """The places that have these numbers."""
        new = [number for number in {*numbers} if number not in self._places]
        if new:
            rows = connection.execute(sa.select(places).where(places.c.number.in_(new)))
            self._places.update({row.number: place_of(row) for row in rows})
        return self._places

    def _add(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        if not rows:
            return
        keys = [row["digest"] for row in rows]

        def work(connection: sa.Connection) -> list[tuple[str, int]]:
            connection.execute(insert_new(connection, table), rows)
            found = sa.select(table.c.digest, table.c.number).where(table.c.digest.in_(keys))
            return [(row[0], row[1]) for row in connection.execute(found)]

        self._numbers.update(self._database.write(work))


def place_of(row: Any) -> Place:  # noqa: ANN401 - a row, however long
    """The place in a row of ``places``."""
    return Place(
        host=restored(row.host),
        gfx=restored(row.gfx),
        device=restored(row.device),
        driver=restored(row.driver),
        versions=loads(row.versions),
    )
