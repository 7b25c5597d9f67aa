"""What the two databases say alike, and SQLAlchemy says once for each."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

Insert = sqlite.Insert | postgresql.Insert


def insert(connection: sa.Connection, table: sa.Table) -> Insert:
    """An INSERT that can say what becomes of rows that are there already."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def insert_new(connection: sa.Connection, table: sa.Table) -> Insert:
    """An INSERT that leaves alone what is there already."""
    return insert(connection, table).on_conflict_do_nothing()
