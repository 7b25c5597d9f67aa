"""What a database's refusal means: wait and try again, or one clear error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.errors import StoreError

if TYPE_CHECKING:
    from sqlalchemy.exc import DBAPIError

    from optest.store.url import Place

# Of PostgreSQL, by SQLSTATE: a server that starts or stops, too many clients, a deadlock or a
# conflict of two transactions; of SQLite by its words: another process writes.
_BUSY_STATES = ("57P03", "53300", "40001", "40P01", "55P03")
_BUSY_WORDS = ("the database system is", "too many clients", "is locked")
# The connection was lost or cannot be made, to a server that was there before.
_AWAY_STATES = ("08", "57P01", "57P02")
_AWAY_WORDS = ("connection", "server", "no such file or directory", "consuming input failed")
_FOR_GOOD = ("authentication", "password", 'database "', 'role "', "resolve", "translate")
_DISK = "the disk is full: make room, or give another --store"
_WRITE = "it may not be written: change its permissions, or give another --store"
_OPEN = "it can be neither opened nor made: see that its folder can be written"
_DAMAGED = "the file is damaged: move it away, or give another --store"
_NO_DATABASE = "there is no such database: make it with createdb, or correct the URL"
_PASSWORD = "the server asks for a password: give it in the URL, PGPASSWORD or ~/.pgpass"  # noqa: S105
_HOST = "there is no such host: correct the URL"
_MEANT = (
    ("database or disk is full", _DISK),
    ("no space left on device", _DISK),
    ("could not extend file", "the server's disk is full: make room there"),
    ("attempt to write a readonly database", _WRITE),
    ("unable to open database file", _OPEN),
    ("file is not a database", "the file is no SQLite database: give another --store"),
    ("database disk image is malformed", _DAMAGED),
    ("disk i/o error", "the disk refused to read or write: see that it is well and not full"),
    ("string or blob too big", "a text is longer than the database takes"),
    ("password authentication failed", "the server refused the user or the password"),
    ("no password supplied", _PASSWORD),
    ('database "', _NO_DATABASE),
    ('role "', "the server does not know the user: correct the URL"),
    ("permission denied", "the user may not make or write tables there"),
    ("database is locked", "another process held it locked all the while"),
    ("failed to resolve host", _HOST),
    ("could not translate host name", _HOST),
    ("connection refused", "no server listens there: start it, or correct the URL"),
    ("no such file or directory", "no server listens there: start it, or correct the URL"),
    ("unsupported", "it is no server of PostgreSQL, or one that is too old"),
)


def passes(error: DBAPIError, *, reached: bool) -> bool:
    """Whether the same may well succeed a little later, on another connection.

    Args:
        error: what the database said.
        reached: whether the database has ever answered. One that never did is not waited for.
    """
    state = str(getattr(error.orig, "sqlstate", None) or "")
    if state:
        return state.startswith(_BUSY_STATES) or (reached and state.startswith(_AWAY_STATES))
    words = str(error.orig).lower()
    if any(known in words for known in _BUSY_WORDS):
        return True
    if not reached or any(known in words for known in _FOR_GOOD):
        return False
    return error.connection_invalidated or any(known in words for known in _AWAY_WORDS)


def meant(place: Place, error: DBAPIError) -> StoreError:
    """The error for a person: which store, what is wrong, what to do, the database's own words."""
    words = " ".join(str(error.orig).split())
    lower = words.lower()
    said = next((text for known, text in _MEANT if known in lower), "the database refused")
    return StoreError(f"{place}: {said} ({words})")
