"""An A/B measurement from two words for revisions to the results of both."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import optest
from optest.ab import sides as making
from optest.ab import units as pairing
from optest.ab.outcome import Outcome
from optest.ab.repository import Repository
from optest.ab.request import AbRequest
from optest.ab.rounds import Lane, Rounds
from optest.ab.side import BUDGET_S, Side
from optest.ab.units import Pair, Units
from optest.errors import OptestError, StoreError, UsageError
from optest.store import Store
from optest.store.records import Place, Result, RunFacts
from optest.sweep.devices import local_lanes
from optest.sweep.executor import Collection
from optest.sweep.facts import environment as surroundings
from optest.sweep.local import LocalExecutor
from optest.sweep.nursery import NurseryError
from optest.sweep.run import refused
from optest.sweep.signals import Stop
from optest.sweep.words import duration


@dataclass(frozen=True)
class Means:
    """What it works with.

    Attributes:
        here: the working folder; the op tests run in what it is in each worktree.
        tell: takes a line on how far it is.
    """

    here: Path
    store: Store
    tell: Callable[[str], None]


def measured(request: AbRequest, means: Means) -> Outcome:
    """Measure both revisions in turn.

    Raises:
        UsageError: something that was asked for is not there, or cannot be checked out or built;
            nothing has been measured then.
        StoreError: the store refused before anything was measured. Later that is the outcome's
            ``fault``, as is a side on which nothing can run any more.
        KeyboardInterrupt: it was stopped before anything was measured.
    """
    return _Measurement(request, replace(means, here=means.here.resolve())).run()


class _Measurement:
    def __init__(self, request: AbRequest, means: Means) -> None:
        self._request = request
        self._means = means
        self._stop = Stop()
        self._executors: list[LocalExecutor] = []
        self._made = 0
        self._fault = ""

    def run(self) -> Outcome:
        started = time.monotonic()
        here = self._means.here
        repository = Repository.around(here)
        paths = making.inside(self._request.sweep.paths, repository, here)
        with self._stop, ExitStack() as stack:
            self._means.tell("checking out both revisions")
            both = stack.enter_context(making.made(self._request, repository, here))
            files = self._files(paths, both)
            lanes = local_lanes(1)
            for side in both:
                job = self._request.sweep.job(side.folder)
                self._executors.append(LocalExecutor(job, lanes, side.home(repository.top)))
            self._stop.listen(self._stop_executors, raises=True)
            for executor in self._executors:
                stack.enter_context(executor)
            outcome = self._through(both, files)
        return replace(outcome, interrupted=self._stop.asked, seconds=time.monotonic() - started)

    def _files(self, paths: Sequence[str], both: Sequence[Side]) -> list[list[str]]:
        for path in paths:
            if not any((side.folder / path).exists() for side in both):
                raise UsageError(
                    f"{path}: it is in neither {' nor '.join(s.revision.shown for s in both)}: "
                    "expected an op test that git holds there; WORKTREE takes files as they stand"
                )
        found = [making.op_tests(paths, side) for side in both]
        left = set(self._request.sweep.filters.files(list(dict.fromkeys(found[0] + found[1]))))
        return [[name for name in side if name in left] for side in found]

    def _stop_executors(self) -> None:
        for executor in self._executors:
            executor.stop()

    def _through(self, both: Sequence[Side], files: Sequence[list[str]]) -> Outcome:
        self._means.tell("collecting")
        sides = zip(both, self._executors, files, strict=True)
        found = [_collected(side, executor, names) for side, executor, names in sides]
        place = self._executors[0].place()
        every = pairing.paired(*found)
        units = pairing.chosen(every, self._request.sweep.filters, place.gfx)
        outcome = Outcome(
            (both[0].revision, both[1].revision),
            faulty=units.faulty,
            gated=units.gated,
            elsewhere=place.gfx if every.pairs and not units.pairs else "",
        )
        if not units.pairs:
            return outcome
        pair = secrets.token_hex(8)
        facts = (self._facts(both[0], place, pair), self._facts(both[1], place, pair))
        runs = self._begun(facts, units)
        outcome = replace(outcome, runs=runs, facts=facts)
        results = self._measured(runs, units)
        return replace(outcome, results=results, rounds=self._made, fault=self._fault)

    def _begun(self, facts: tuple[RunFacts, RunFacts], units: Units) -> tuple[str, str]:
        """Both runs, with what they have to do, in the store."""
        store = self._means.store
        runs = [store.begin(each) for each in facts]
        for at, run in enumerate(runs):
            here = [unit for each in units.pairs if (unit := each[at]) is not None]
            store.plan(run, here + [lost.planned for lost in units.lost[at]])
        return runs[0], runs[1]

    def _facts(self, side: Side, place: Place, pair: str) -> RunFacts:
        asked = self._request.sweep.arguments()
        # Not under its own name: a run with paths is one that --resume could go on with.
        asked = {name: value for name, value in asked.items() if name != "paths"}
        told = {
            "side": side.name,
            "pair": pair,
            "revision": side.revision.word,
            "paths": list(self._request.sweep.paths),
            "rounds": self._request.rounds,
        }
        return RunFacts(
            commit=side.revision.commit,
            branch=side.revision.branch,
            dirty=side.revision.dirty,
            mode=self._request.sweep.mode or "run",
            optest=optest.__version__,
            place=place,
            environment={"OPTEST_BUDGET_S": BUDGET_S, **surroundings()},
            arguments={**asked, "folder": str(self._means.here), "ab": told},
        )

    def _measured(
        self, runs: tuple[str, str], units: Units
    ) -> tuple[Sequence[Result], Sequence[Result]]:
        base, head = self._executors
        rounds = Rounds(self._means.store, (Lane(base, runs[0]), Lane(head, runs[1])))
        self._stop.listen(rounds.stop, raises=False)
        try:
            for side in (0, 1):
                rounds.keep(side, units.lost[side])
            self._rounds(rounds, units.pairs)
        except OptestError as error:  # nothing is left to run on, or to keep results in
            self._fault = str(error)
        finally:
            self._stop.listen(self._stop_executors, raises=True)
        for run in runs:
            self._end(run)
        return rounds.results(0), rounds.results(1)

    def _rounds(self, rounds: Rounds, pairs: Sequence[Pair]) -> None:
        started = time.monotonic()
        for number in range(self._request.rounds):
            rounds.run(pairs, number)
            if rounds.stopped:
                return
            self._made = number + 1
            pairs = rounds.due(pairs)
            if not pairs:
                return
            left = (self._request.rounds - self._made) * (time.monotonic() - started) / self._made
            self._means.tell(
                f"round {self._made} of {self._request.rounds}"
                + (f", about {duration(left)} left" if left else "")
            )

    def _end(self, run: str) -> None:
        whole = not self._stop.asked and not self._fault
        try:
            self._means.store.end(run, "complete" if whole else "interrupted")
        except StoreError as error:
            self._fault = self._fault or str(error)


def _collected(side: Side, executor: LocalExecutor, names: Sequence[str]) -> list[Collection]:
    try:
        executor.ready()
        return [refused(each) for each in executor.collect(names, lambda _: None)]
    except NurseryError as error:
        raise UsageError(f"{side.name}, {side.revision.shown}: {error}") from None
