"""The store: runs and their results, in a file or on a server."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa

from optest.errors import StoreError
from optest.store import ceilings, decode, encode, medians, reading, url, writing
from optest.store.catalogue import Catalogue
from optest.store.database import Database
from optest.store.migrate import bring_up
from optest.store.records import GOOD, Expected, Peaks, Place, Planned, Result, Run, RunFacts
from optest.store.text import dumps, stored

if TYPE_CHECKING:
    from typing_extensions import Self

_CHUNK = 200  # results read at a time
_SHOWN = 5  # runs that an error names
_ENDS = ("complete", "interrupted")


class Store:
    """Results of sweeps. Several threads may use one; a forked process opens its own.

    What a method writes is kept whole or not at all, and what it reads was written whole. While a
    database is locked or its server away, a call waits and tries again, up to a minute. Any call
    raises ``StoreError`` where the database refuses, is gone for longer, or is asked about a run
    that it does not hold.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._catalogue = Catalogue(database)
        self._run_numbers: dict[str, int] = {}

    @classmethod
    def open(cls, at: str, *, make: bool = True) -> Self:
        """The store at a URL, made or migrated to this version where need be.

        Args:
            at: ``sqlite:///PATH`` or ``postgresql+psycopg://USER@HOST/DATABASE``.
            make: False for who only reads: a file that is not there is an error, not made.

        Raises:
            StoreError: the URL is none, or what stands there is no store that can be used.
        """
        place = url.parse(at)
        if place.path is not None and place.path.is_dir():
            raise StoreError(f"{place}: this is a folder: expected the path of a file in it")
        if not make and place.path is not None and not place.path.is_file():
            raise StoreError(f"{place}: there is no such store: optest run PATH... makes one")
        database = Database(place)
        try:
            bring_up(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database. In a child process, nothing: it belongs to the parent."""
        self._database.close()

    def __str__(self) -> str:
        """Its URL, without a password."""
        return str(self._database.place)

    def begin(self, facts: RunFacts) -> str:
        """Begin a run; its state is ``running`` until ``end``.

        Returns:
            Its id: readable, sorted by time (UTC), unique in this store.
        """
        started = time.time()
        row = {
            "state": "running",
            "started": started,
            "commit_hash": stored(facts.commit),
            "branch": stored(facts.branch),
            "dirty": facts.dirty,
            "mode": stored(facts.mode),
            "optest": stored(facts.optest),
            "place_number": self._catalogue.place(facts.place),
            "environment": dumps(facts.environment),
            "arguments": dumps(facts.arguments),
        }
        moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started))
        while True:
            row["id"] = f"{moment}-{secrets.token_hex(2)}"
            if self._database.write(lambda connection: writing.begin(connection, row)):
                return str(row["id"])

    def plan(self, run: str, planned: Sequence[Planned]) -> None:
        """Say what the run is to do. Called again, it adds what is new."""
        number = self._number(run)
        rows = [encode.planned_row(each) for each in planned]
        if rows:
            self._database.write(lambda connection: writing.plan(connection, number, rows))

    def record(self, run: str, result: Result) -> None:
        """Keep what became of a unit, in the place of an earlier result of the same unit.

        When it returns, the result is in the database. A long text is kept without its middle.
        """
        number = self._number(run)
        rows = encode.rows_of(result)
        rows.case["place_number"] = self._catalogue.place(result.place)
        names = self._catalogue.candidates({row["candidate"] for row in rows.measures})
        self._database.write(lambda connection: writing.record(connection, number, rows, names))

    def end(self, run: str, state: str) -> None:
        """Say how the run ended: ``complete`` or ``interrupted``."""
        if state not in _ENDS:
            raise StoreError(f"state {state!r} of a run: expected {' or '.join(_ENDS)}")
        self._set_state(run, state, time.time())

    def reopen(self, run: str) -> None:
        """Say that the run goes on: its state is ``running`` again."""
        self._set_state(run, "running", None)

    def find(self, ref: str) -> Run:
        """The run that ``ref`` means.

        Args:
            ref: an id, or what only one id begins with; ``latest``; or a branch or the beginning
                of a commit, of which the newest run.

        Raises:
            StoreError: there is none, or there are several; it names what there is.
        """

        def work(connection: sa.Connection) -> tuple[bool, bool, list[Run]]:
            numbers, rivals = reading.named(connection, ref)
            if ref == "latest":
                numbers = reading.newest(connection, 1)
            shown = numbers[:_SHOWN] or reading.newest(connection, _SHOWN)
            return bool(numbers), rivals, reading.some_runs(connection, shown)

        found, rivals, shown = self._database.read(work)
        ids = ", ".join(run.id for run in shown)
        if not shown:
            raise StoreError(f"{self}: it holds no run yet: optest run PATH... makes one")
        if not found:
            raise StoreError(
                f"run {ref!r}: {self} holds no run of that id, branch or commit: expected latest "
                f"or one of {ids}"
            )
        if rivals:
            raise StoreError(f"run {ref!r}: it may be {ids}: give more of the id")
        return shown[0]

    def runs(self, limit: int = 20) -> list[Run]:
        """The newest runs, newest first."""
        return self._database.read(
            lambda connection: reading.some_runs(connection, reading.newest(connection, limit))
        )

    def planned(self, run: str) -> list[Planned]:
        """Every planned unit, in the order of position."""
        number = self._number(run)
        return self._database.read(lambda connection: reading.planned(connection, number))

    def missing(self, run: str) -> list[Planned]:
        """The planned units that have no good result, in the order of position."""
        number = self._number(run)
        return self._database.read(lambda connection: reading.missing(connection, number))

    def results(self, run: str) -> Iterator[Result]:
        """Every result of the run in the order of position, each whole.

        Of a run that still goes on, those that are there; some may be newer than others.
        """
        number = self._number(run)
        found = self._database.read(lambda connection: reading.done(connection, number))
        for start in range(0, len(found), _CHUNK):
            yield from self._whole(found[start : start + _CHUNK])

    def medians(self, run: str) -> Sequence[medians.Median]:
        """The medians of the run's good cases, without samples, in no order."""
        number = self._number(run)
        return self._database.read(lambda connection: medians.of_run(connection, number))

    def latest(
        self, case_id: str, *, gfx: str = "", mode: str = "", good: bool = False
    ) -> Result | None:
        """The newest result of a case, of all runs.

        Args:
            case_id: as ``Planned.id``.
            gfx: only where it ran on this; empty for anywhere.
            mode: only of runs in this mode; empty for any.
            good: only where nothing was wrong with it.
        """
        statuses = GOOD if good else ()
        found = self._database.read(
            lambda connection: reading.latest(connection, case_id, gfx, mode, statuses)
        )
        return next(iter(self._whole([found])), None) if found else None

    def expected(
        self, planned: Sequence[Planned], *, mode: str = "", gfx: str = ""
    ) -> dict[tuple[str, str, str], Expected]:
        """By key, what the newest good result of each unit says of its time and memory.

        Args:
            planned: units of any run; one that names a kind of node is looked up there.
            mode: only of runs in this mode; empty for any.
            gfx: what the units run on that name no kind of node; empty for anywhere.
        """
        out: dict[tuple[str, str, str], Expected] = {}
        for where in {each.where for each in planned}:
            of_where = [each for each in planned if each.where == where]
            ids = [each.id for each in of_where]
            known = self._database.read(
                lambda connection, ids=ids, where=where: reading.expected(  # type: ignore[misc]
                    connection, ids, where or gfx, mode
                )
            )
            out.update({each.key: known[each.id] for each in of_where if each.id in known})
        return out

    def record_peaks(self, measured: Peaks) -> None:
        """Keep what a machine can do; earlier ceilings of the same machine stay.

        Raises:
            StoreError: there is no ceiling to keep, or the database refuses.
        """
        if not measured.ceilings:
            raise StoreError(f"peaks of {measured.place.device!r}: none was measured")
        rows = ceilings.rows_of(measured, self._catalogue.place(measured.place))
        self._database.write(lambda connection: ceilings.write(connection, rows))

    def peaks(self, place: Place) -> Peaks | None:
        """The newest ceilings of the arch and device of ``place``, those of its host first.

        None where nobody measured any: ``optest peaks`` does.
        """

        def work(connection: sa.Connection) -> Peaks | None:
            found = ceilings.newest(connection, place)
            if found is None:
                return None
            where = self._catalogue.places(connection, [found[0]])[found[0]]
            return Peaks(where, found[1], ceilings.read(connection, *found))

        return self._database.read(work)

    def _whole(self, found: Sequence[tuple[int, int]]) -> list[Result]:
        def work(connection: sa.Connection) -> list[Result]:
            places = self._catalogue.places(connection, (place for _, place in found))
            return decode.results_of(connection, [number for number, _ in found], places)

        return self._database.read(work)

    def _set_state(self, run: str, state: str, ended: float | None) -> None:
        number = self._number(run)
        self._database.write(lambda connection: writing.set_state(connection, number, state, ended))

    def _number(self, run: str) -> int:
        if run not in self._run_numbers:
            number = self._database.read(lambda connection: reading.run_number(connection, run))
            if number is None:
                raise StoreError(f"run {run!r}: {self} holds no run with this id")
            self._run_numbers[run] = number
        return self._run_numbers[run]
