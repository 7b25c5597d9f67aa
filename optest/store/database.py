"""One database: its connections, transactions that are tried again, its version brought up to date.

Everything given to ``read`` and ``write`` may be run more than once, and must not mind: a commit
whose outcome is unknown, because the server went away in it, is done again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from optest.errors import StoreError
from optest.log import logger
from optest.store import engines, faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optest.store.url import Place

_T = TypeVar("_T")
_PATIENCE_S = 60.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 2.0


class Database:
    """A database that several threads of one process may use.

    A child process that was forked opens its own: a connection belongs to one process.
    """

    def __init__(self, place: Place, patience_s: float = _PATIENCE_S) -> None:
        self.place = place
        self.patience_s = patience_s
        self._engine = engines.made(place)
        self._reading = engines.reading(self._engine)
        self._writing = engines.writing(self._engine)
        # One at a time here: SQLite's own waiting for a writer sleeps, and by far too long.
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._reached = False
        self._said = False
        self._file: tuple[int, int] | None = None

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._engine.dialect.name

    def read(self, work: Callable[[sa.Connection], _T]) -> _T:
        """What ``work`` returns; all it reads is of one moment.

        Raises:
            StoreError: the database refused, or stayed away for too long.
        """
        return self._patiently(self._reading, work)

    def write(self, work: Callable[[sa.Connection], _T]) -> _T:
        """Run ``work`` in one transaction; it is kept whole or not at all.

        Raises:
            StoreError: the database refused, stayed away for too long, or its file was removed.
        """
        if self._file is not None:
            self._see_its_file()
        out = self._patiently(self._writing, work)
        self._see_its_file()
        return out

    def let_readers_in(self) -> None:
        """Have SQLite's file, from now on, read while it is written; a server always does.

        Where the file system cannot, the file stays as it is: readers then wait for the writer.
        """
        if self.dialect == "sqlite":
            self._patiently(
                engines.bare(self._engine),
                lambda connection: connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar(),
            )

    def close(self) -> None:
        """Let go of every connection."""
        if os.getpid() == self._pid:
            self._engine.dispose()

    def _patiently(self, engine: sa.Engine, work: Callable[[sa.Connection], _T]) -> _T:
        deadline = time.monotonic() + self.patience_s
        wait = _FIRST_WAIT_S
        while True:
            try:
                with self._transaction(engine) as connection:
                    out = work(connection)
            except DBAPIError as error:
                passes = faults.passes(error, reached=self._reached)
                if not passes or time.monotonic() + wait > deadline:
                    raise faults.meant(self.place, error) from None
                self._say(error)
            else:
                self._reached = True
                self._say_well()
                return out
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    @contextmanager
    def _transaction(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.place}: this store was opened by process {self._pid}: open it again in "
                f"process {os.getpid()}"
            )
        with self._lock, engine.begin() as connection:
            engines.begin(connection)
            yield connection

    def _see_its_file(self) -> None:
        """SQLite writes on into a file that was removed or replaced, and all of it is lost."""
        if self.place.path is None:
            return
        try:
            stat = self.place.path.stat()
        except OSError:
            now = None
        else:
            now = stat.st_dev, stat.st_ino
            self._file = self._file or now
        if now is None or now != self._file:
            raise StoreError(
                f"{self.place}: the file was removed or replaced while it was written: what it "
                "held is lost; leave it where it is"
            )

    def _say(self, error: DBAPIError) -> None:
        if not self._said:
            words = " ".join(str(error.orig).split())
            logger.warning("%s: not to be had just now (%s): trying again", self.place, words)
        self._said = True

    def _say_well(self) -> None:
        if self._said:
            logger.info("%s: to be had again", self.place)
        self._said = False
