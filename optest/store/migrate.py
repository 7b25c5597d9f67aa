"""A database's version: read, brought forward, or refused where it is newer than this optest."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from optest.errors import StoreError
from optest.store.schema import VERSION, VERSION_TABLE, metadata

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

    from optest.store.database import Database
    from optest.store.url import Place

SCRIPTS = Path(__file__).parent / "migrations"
_LOCK_OF_POSTGRES = 0x6F70_7465_7374  # "optest"; any number that no other program takes
_one_at_a_time = threading.Lock()  # alembic's context is one a process


def bring_up(database: Database, scripts: Path = SCRIPTS, version: str = VERSION) -> None:
    """Make the tables, or migrate them to ``version``, whoever else is about to do the same.

    Raises:
        StoreError: the database is from a newer optest, or is something else's.
    """
    found = database.read(lambda connection: _look(connection, database.place))
    if found == version:
        return
    if found is None:
        database.let_readers_in()
    database.write(lambda connection: _migrate(connection, database.place, scripts, version))


def _look(connection: sa.Connection, place: Place) -> str | None:
    """The version; None for a database in which there is nothing of a store yet."""
    found = _version_of(connection)
    if found is None:
        _refuse_what_is_not_ours(connection, place)
        _refuse_other_encodings(connection, place)
    return found


def _version_of(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.execute(
        sa.text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant of ours
    ).scalar()
    return found


def _migrate(connection: sa.Connection, place: Place, scripts: Path, version: str) -> None:
    """In a transaction that writes: SQLite's is alone already, PostgreSQL's waits for its lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_OF_POSTGRES)))
    found = _look(connection, place)
    if found == version:  # by another process, meanwhile
        return

    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    _refuse_newer(ScriptDirectory.from_config(config), found, place)
    config.attributes["connection"] = connection
    with _one_at_a_time:
        command.upgrade(config, version)


def _refuse_newer(scripts: ScriptDirectory, found: str | None, place: Place) -> None:
    known = sorted(script.revision for script in scripts.walk_revisions())
    if found is not None and found not in known:
        raise StoreError(
            f"{place}: it was written by a newer optest (version {found} of the tables; this one "
            f"knows up to {known[-1]}): update optest, or give another --store"
        )


def _refuse_what_is_not_ours(connection: sa.Connection, place: Place) -> None:
    there = set(sa.inspect(connection).get_table_names())
    # A server's database may be shared with other programs, a file is one program's.
    strange = there if place.path is not None else there & set(metadata.tables)
    if strange:
        names = ", ".join(sorted(strange)[:5])
        raise StoreError(
            f"{place}: it holds tables of something else ({names}): give another --store"
        )


def _refuse_other_encodings(connection: sa.Connection, place: Place) -> None:
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
    if encoding != "UTF8":
        raise StoreError(
            f"{place}: its encoding is {encoding}: expected UTF8, as createdb -E UTF8 -T template0 "
            "makes it"
        )
