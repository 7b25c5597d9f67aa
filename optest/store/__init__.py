"""Results in a database: SQLite by default, PostgreSQL by URL. Importing it loads no database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.lazy import face

if TYPE_CHECKING:
    from optest.store.store import Store
    from optest.store.url import default_url

__all__ = ["Store", "default_url"]

__getattr__, __dir__ = face(
    __name__, {"Store": "optest.store.store", "default_url": "optest.store.url"}
)
