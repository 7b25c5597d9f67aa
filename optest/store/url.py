"""Where a store is: the forms of a URL that are understood, and what is wrong with the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optest.errors import StoreError

if TYPE_CHECKING:
    import sqlalchemy as sa

FORMS = "sqlite:///PATH (sqlite:////PATH from the root) or postgresql+psycopg://USER@HOST/DATABASE"
_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql+psycopg", "postgresql", "postgres")


@dataclass(frozen=True)
class Place:
    """A database: a file of SQLite, or what PostgreSQL's driver is given.

    Attributes:
        path: of the file, absolute; None for PostgreSQL.
        server: URL of the PostgreSQL database; None for a file.
    """

    path: Path | None = None
    server: sa.URL | None = None

    def __str__(self) -> str:
        """The URL without its password, which its query may hold too."""
        if self.server is not None:
            return self.server.set(query={}).render_as_string(hide_password=True)
        return f"{_SQLITE}{self.path}"


def default_url(folder: Path) -> str:
    """The store that stands in ``folder``'s ``.optest/``."""
    return f"{_SQLITE}{folder.absolute() / '.optest' / 'results.sqlite'}"


def parse(url: str) -> Place:
    """The place that ``url`` names; a relative path counts from the working folder of now.

    Raises:
        StoreError: it has none of the forms; the message names them and shows no password.
    """
    if url.startswith(_SQLITE):
        return Place(path=_file(url))
    scheme, separator, _ = url.partition("://")
    if separator and scheme in _POSTGRES:
        return Place(server=_server(url))
    raise StoreError(f"--store {_shown(url)}: expected {FORMS}")


def _file(url: str) -> Path:
    # Taken as it stands, not as a URL: a folder's name may hold "?", "#" or "%".
    text = url.removeprefix(_SQLITE)
    if not text or text == ":memory:" or "\x00" in text:
        raise StoreError(
            f"--store {url!r}: expected the path of a file, as sqlite:///results.sqlite"
        )
    return Path(text).expanduser().absolute()


def _server(url: str) -> sa.URL:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    if url.count("@") > 1:  # it would be taken for part of the host, and shown
        raise StoreError(f"--store {_shown(url)}: write an @ of the password as %40")
    try:
        made = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(f"--store {_shown(url)}: expected {FORMS}") from None
    if not made.database:
        raise StoreError(f"--store {_shown(url)}: it names no database: expected {FORMS}")
    return made.set(drivername="postgresql+psycopg")


def _shown(url: str) -> str:
    """``url`` without what may be a password: between the scheme and the last ``@``, in a query."""
    scheme, separator, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    user = f"{login.partition(':')[0]}:***@" if at else ""
    return repr(f"{scheme}{separator}{user}{host.partition('?')[0]}")
