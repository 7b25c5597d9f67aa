"""Connections: to a file of SQLite that many processes share, or to a server of PostgreSQL."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool

from optest.errors import StoreError

if TYPE_CHECKING:
    from optest.store.url import Place

_BUSY_S = 30.0
_CONNECT_S = 10
_FOLDER = ".optest"


def made(place: Place) -> sa.Engine:
    """An engine whose transactions begin as this house needs them; nothing is opened yet.

    Raises:
        StoreError: the driver is not there, or the folder cannot be made.
    """
    if place.path is not None:
        return _sqlite(place.path)
    try:
        import psycopg  # noqa: F401 - so that what is missing is named here
    except ImportError:
        raise StoreError(
            f"{place}: PostgreSQL needs psycopg: pip install 'optest[postgres]'"
        ) from None
    assert place.server is not None
    return sa.create_engine(
        place.server,
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args={"connect_timeout": _CONNECT_S, "application_name": "optest"},
    )


def reading(engine: sa.Engine) -> sa.Engine:
    """The same connections, for transactions that see one moment however much they read."""
    if engine.dialect.name == "postgresql":
        return engine.execution_options(isolation_level="REPEATABLE READ")
    return engine


def writing(engine: sa.Engine) -> sa.Engine:
    """The same connections, for transactions that write."""
    return engine.execution_options(begin="BEGIN IMMEDIATE")


def bare(engine: sa.Engine) -> sa.Engine:
    """The same connections of SQLite, for what it does in no transaction."""
    return engine.execution_options(begin="")


def begin(connection: sa.Connection) -> None:
    """Say to SQLite that a transaction begins, and of which kind; a server's driver says it itself.

    Not as a listener to the engine's ``begin``: that makes each statement look for listeners.
    """
    if connection.dialect.name != "sqlite":
        return
    # A writer is one at once: a reader that turns writer half way could only be refused.
    words = connection.get_execution_options().get("begin", "BEGIN")
    if words:
        connection.exec_driver_sql(words)


def _sqlite(path: Path) -> sa.Engine:
    _make_folder(path)
    return sa.create_engine(
        "sqlite://", creator=lambda: _connection(path), poolclass=QueuePool, hide_parameters=True
    )


def _make_folder(path: Path) -> None:
    try:
        fresh = not path.parent.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh and path.parent.name == _FOLDER:
            (path.parent / ".gitignore").write_text("*\n", "utf-8")
    except OSError as error:
        raise StoreError(
            f"sqlite:///{path}: its folder cannot be made ({error.strerror}): give another --store"
        ) from None


def _connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    return connection
