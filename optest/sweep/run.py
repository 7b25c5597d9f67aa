"""A sweep from its files to its outcome: collect, plan, execute, store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from optest.errors import OptestError, StoreError
from optest.log import logger
from optest.store.records import Planned, Result, Run, RunFacts
from optest.sweep import facts, plan
from optest.sweep.claim import Claim
from optest.sweep.executor import Collection, Executor
from optest.sweep.progress import Progress
from optest.sweep.request import Request
from optest.sweep.signals import Stop
from optest.sweep.sweep_outcome import REFUSED, Outcome, in_order, slim

if TYPE_CHECKING:
    from optest.store import Store


@dataclass(frozen=True)
class Means:
    """What a sweep works with.

    Attributes:
        folder: where the op tests run, and what their names are relative to.
    """

    folder: Path
    store: Store
    executor: Executor
    progress: Progress


def sweep(request: Request, files: Sequence[str], means: Means, run: Run | None = None) -> Outcome:
    """Run what ``files`` hold and ``request`` leaves of it; with ``run``, what that still owes.

    Raises:
        UsageError: a filter that matches nothing, or another process is at work on ``run``;
            nothing has run then.
        StoreError: the store refused before anything ran. Later it is the outcome's ``fault``,
            as is an executor that cannot go on.
    """
    return _Sweep(request, means, run).run(files)


class _Sweep:
    def __init__(self, request: Request, means: Means, resumed: Run | None) -> None:
        self._request = request
        self._means = means
        self._resumed = resumed
        self._stop = Stop()
        self._claims = ExitStack()
        self._outcome = Outcome(request)
        self._results: dict[tuple[str, str, str], Result] = {}
        self._fault = ""

    def run(self, files: Sequence[str]) -> Outcome:
        """The whole course; what was finished before an interrupt is in the outcome."""
        started = time.monotonic()
        with self._stop, self._claims:
            try:
                if self._resumed is not None:
                    self._claim(self._resumed.id)
                with self._means.progress, self._means.executor:
                    self._through(files)
            except KeyboardInterrupt:
                self._end("interrupted")
        return replace(
            self._outcome,
            results=in_order(self._results.values(), self._outcome.planned),
            interrupted=self._stop.asked,
            fault=self._fault,
            seconds=time.monotonic() - started,
        )

    def _through(self, files: Sequence[str]) -> None:
        means = self._means
        self._stop.listen(means.executor.stop, raises=True)
        means.progress.expect_files(len(files))
        found = means.executor.collect(files, means.progress.collected)
        collections = [refused(each) for each in found]
        self._outcome = replace(self._outcome, collections=collections)
        now = facts.gather(self._request, means.folder, means.executor.place())
        planned = plan.in_table_order(collections)
        chosen = self._request.filters.cases(planned, now.place.gfx)
        self._outcome = replace(
            self._outcome,
            facts=now,
            planned=chosen,
            left_out=_left_out(collections, chosen, self._request),
            elsewhere=_elsewhere(planned, chosen, self._request, now.place.gfx),
        )
        if chosen:
            due = self._entered(now, chosen)
            self._execute(due)

    def _entered(self, now: RunFacts, chosen: Sequence[Planned]) -> Sequence[Planned]:
        """The run, its units in the store; what of them is still to be run."""
        store, resumed = self._means.store, self._resumed
        if resumed is None:
            run = store.begin(now)
            self._claim(run)
            self._outcome = replace(self._outcome, run=run)
            store.plan(run, chosen)
            return chosen
        for line in facts.differences(resumed.facts, now):
            logger.warning("run %s goes on, but %s", resumed.id, line)
        store.reopen(resumed.id)
        store.plan(resumed.id, chosen)
        missing = {unit.key: unit for unit in store.missing(resumed.id)}
        here = {unit.key for unit in chosen}
        self._outcome = replace(
            self._outcome,
            run=resumed.id,
            planned=store.planned(resumed.id),
            vanished=[unit for key, unit in missing.items() if key not in here],
        )
        due = [unit for unit in chosen if unit.key in missing]
        again = {(unit.file, unit.where) for unit in due if unit.whole}  # its cases are told anew
        earlier = (r for r in store.results(resumed.id) if _at(r.planned) not in again)
        self._results = {result.planned.key: slim(result) for result in earlier}
        return due

    def _claim(self, run: str) -> None:
        self._claims.enter_context(Claim(str(self._means.store), run))

    def _execute(self, due: Sequence[Planned]) -> None:
        executor, progress, now = self._means.executor, self._means.progress, self._outcome.facts
        known = self._means.store.expected(due, mode=now.mode, gfx=now.place.gfx)
        work = plan.longest_first(due, known)
        progress.expect(work, executor.width)
        self._stop.listen(executor.stop, raises=False)
        try:
            executor.run(work, progress.begin, self._take)
        except OptestError as error:  # there is nothing left to run on
            self._fault = self._fault or str(error)
        finally:
            self._stop.listen(executor.stop, raises=True)
        self._end("interrupted" if self._stop.asked or self._fault else "complete")

    def _take(self, result: Result) -> None:
        if self._fault:
            return
        try:
            self._means.store.record(self._outcome.run, result)
        except StoreError as error:
            self._fault = str(error)
            self._means.executor.stop()
            return
        self._results[result.planned.key] = slim(result)
        self._means.progress.take(result)

    def _end(self, state: str) -> None:
        if not self._outcome.run:
            return
        try:
            self._means.store.end(self._outcome.run, state)
        except StoreError as error:
            self._fault = self._fault or str(error)


def _at(unit: Planned) -> tuple[str, str]:
    return unit.file, unit.where


def refused(collection: Collection) -> Collection:
    """A script that refuses its arguments would do so again when it is run whole."""
    asked, _, words = collection.whole.partition("main() exited 2: ")
    if asked or not words:
        return collection
    return replace(collection, planned=(), whole="", fault=REFUSED + words)


def _left_out(
    collections: Sequence[Collection], chosen: Sequence[Planned], request: Request
) -> list[str]:
    files = {unit.file for unit in chosen}
    narrowed = request.keep or request.function
    whole = [each.file for each in collections if each.whole and each.file not in files]
    return list(dict.fromkeys(whole)) if narrowed else []


def _elsewhere(
    planned: Sequence[Planned], chosen: Sequence[Planned], request: Request, gfx: str
) -> str:
    if chosen or not planned:
        return ""
    there = sorted({unit.where or gfx for unit in planned})
    return f"--arch {request.arch}: nothing was run, since this is {', '.join(there)}"
