"""The rounds: every unit on both sides, in turn, again and again; each result is kept at once."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from optest.ab.blocks import merged
from optest.ab.turns import Key, Turns, alternating
from optest.ab.units import Pair
from optest.store import Store
from optest.store.records import Planned, Result, is_timing
from optest.sweep.executor import Executor, Work

_JOINS_EVERY_S = 0.2


@dataclass(frozen=True)
class Lane:
    """A side at work: its executor, and its run in the store."""

    executor: Executor
    run: str


class Rounds:
    """Runs rounds, one after the other.

    A unit takes part in the next one while both sides have it, nothing about it was bad on either
    and there is a time of both to compare: else another round would say nothing new.
    """

    def __init__(self, store: Store, lanes: tuple[Lane, Lane]) -> None:
        self._store = store
        self._lanes = lanes
        self._results: tuple[dict[Key, list[Result]], ...] = (defaultdict(list), defaultdict(list))
        self._alone: set[Key] = set()
        self._turns = Turns(())
        self._error: BaseException | None = None
        self.stopped = False

    def stop(self) -> None:
        """End what runs, soon. May be called from a signal handler."""
        self.stopped = True
        self._turns.stop()
        for lane in self._lanes:
            lane.executor.stop()

    def keep(self, side: int, results: Sequence[Result]) -> None:
        """Take what is known of a side without running it."""
        for result in results:
            self._take(side, result)

    def run(self, pairs: Sequence[Pair], number: int) -> None:
        """One round over these units.

        Raises:
            StoreError: a result could not be kept.
            OptestError: there is nothing left to run on.
        """
        self._turns = Turns(alternating(pairs, number))
        self._alone |= {u.key for pair in pairs if None in pair for u in pair if u is not None}
        if self.stopped:
            return
        units = [[unit for pair in pairs if (unit := pair[side]) is not None] for side in (0, 1)]
        threads = [
            threading.Thread(target=self._run_side, args=(side, units[side])) for side in (0, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # in pieces, so that a signal is handled meanwhile
                thread.join(_JOINS_EVERY_S)
        if self._error is not None:
            raise self._error

    def due(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The units of these that another round would say something of."""
        return [pair for pair in pairs if all(self._told(side, pair[side]) for side in (0, 1))]

    def results(self, side: int) -> list[Result]:
        """What there is of a side, each case with all its rounds, in the order of position.

        Where the rounds were stopped, without what the other side did not come to: that it has no
        result there is no word on the code.
        """
        mine, other = self._results[side], self._results[1 - side]
        found = [
            merged(rounds)
            for key, rounds in mine.items()
            if not self.stopped or key in other or key in self._alone
        ]
        return sorted(found, key=lambda each: (each.planned.position, each.planned.whole))

    def _told(self, side: int, unit: Planned | None) -> bool:
        if unit is None:
            return False
        known = self._results[side]
        of_unit = [known[unit.key]] if unit.key in known else []
        if unit.whole:
            of_unit += [rounds for key, rounds in known.items() if key[0] == unit.file]
        good = bool(of_unit) and all(each.good for rounds in of_unit for each in rounds)
        return good and any(_timed(each) for rounds in of_unit for each in rounds)

    def _run_side(self, side: int, units: Sequence[Planned]) -> None:
        def begin(unit: Planned) -> None:
            self._turns.wait(side, unit)

        def take(result: Result) -> None:
            self._take(side, result)
            self._turns.done(side, result.planned)

        try:
            if units:
                self._lanes[side].executor.run([Work(unit) for unit in units], begin, take)
        except BaseException as error:  # noqa: BLE001 - raised by run() itself
            self._error = self._error or error
            self.stop()
        finally:
            self._turns.leave(side)

    def _take(self, side: int, result: Result) -> None:
        # Before the turn goes on: what is written then disturbs no measurement.
        rounds = self._results[side][result.planned.key]
        rounds.append(result)
        self._store.record(self._lanes[side].run, merged(rounds))


def _timed(result: Result) -> bool:
    return any(is_timing(value) and value["samples_us"] for value in result.row.values())
