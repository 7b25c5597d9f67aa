"""What came of a sweep: everything that its tables, totals and reports are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from optest.store.records import Planned, Result, RunFacts, is_timing
from optest.sweep.executor import Collection
from optest.sweep.request import Request

OK, FAILED, USAGE, NOTHING_RAN, INTERRUPTED = 0, 1, 2, 5, 130
REFUSED = "it refuses its arguments: "  # how such a fault begins
_ORDER = ("passed", "failed", "error", "crashed", "hung", "empty", "skipped")


@dataclass(frozen=True)
class Outcome:
    """A sweep that has ended, one way or another.

    Attributes:
        run: its id in the store; empty where nothing was left to run.
        planned: its units, in the order of the tables; of a run that was resumed, all of it.
        results: what is known of them, in the same order, without samples.
        elsewhere: why nothing ran: the arch that was asked for is not here.
        left_out: scripts that are run whole and that a filter on cases therefore leaves out.
        vanished: units of the run that was resumed which are in no op test any more.
        interrupted: whether it was stopped from outside.
        fault: why it had to stop: the store could not be written, or nothing was left to run on.
        seconds: its wall time.
    """

    request: Request
    collections: Sequence[Collection] = ()
    run: str = ""
    facts: RunFacts = field(default_factory=RunFacts)
    planned: Sequence[Planned] = ()
    results: Sequence[Result] = ()
    elsewhere: str = ""
    left_out: Sequence[str] = ()
    vanished: Sequence[Planned] = ()
    interrupted: bool = False
    fault: str = ""
    seconds: float = 0.0

    @property
    def cases(self) -> list[Result]:
        """The results of cases; a whole script is none."""
        return [result for result in self.results if not result.planned.whole]

    @property
    def bad(self) -> list[Result]:
        """What failed: cases, and whole scripts where that is not said by a case of theirs."""
        bad = [result for result in self.results if not result.good]
        files = {result.planned.file for result in bad if not result.planned.whole}
        return [result for result in bad if not _told_by_a_case(result, files)]

    @property
    def not_run(self) -> list[Planned]:
        """Units without any result."""
        known = {result.planned.key for result in self.results}
        return [unit for unit in self.planned if unit.key not in known]

    @property
    def gated(self) -> list[Collection]:
        """Op tests that asked for no case here."""
        return [each for each in self.collections if each.gated]

    @property
    def faulty(self) -> list[Collection]:
        """Files that could not be run at all."""
        return [each for each in self.collections if each.fault]

    @property
    def whole(self) -> list[Collection]:
        """Scripts that cannot be collected."""
        return [each for each in self.collections if each.whole]

    @property
    def exit_code(self) -> int:
        """0, 1, 2, 5 or 130, as docs/sweeps.md has them."""
        if self.interrupted:
            return INTERRUPTED
        if not self.run and self.faulty and all(c.fault.startswith(REFUSED) for c in self.faulty):
            return USAGE
        empty = not self.cases and not self.gated and not self.elsewhere
        if self.fault or self.faulty or self.not_run:
            return FAILED
        if empty and all(map(_asked_for_nothing, self.bad)):
            return NOTHING_RAN
        return FAILED if self.bad else OK

    def totals(self) -> str:
        """``16 cases: 14 passed, 1 failed, 1 crashed``."""
        cases = self.cases
        counts = Counter(result.status for result in cases)
        words = [f"{counts[status]} {status}" for status in _ORDER if counts[status]]
        if self.not_run:
            words.append(f"{len(self.not_run)} not run")
        noun = "case" if len(cases) == 1 else "cases"
        return f"{len(cases)} {noun}" + (f": {', '.join(words)}" if words else "")


def _told_by_a_case(result: Result, files: set[str]) -> bool:
    # What a script came to is what its cases came to, unless it crashed or hung besides.
    unit = result.planned
    return unit.whole and unit.file in files and result.status in ("failed", "error")


def _asked_for_nothing(result: Result) -> bool:
    return result.planned.whole and result.reason.startswith(f"exit code {NOTHING_RAN}:")


def slim(result: Result) -> Result:
    """The same without samples and checks, so that many fit in memory; the store has them."""
    return replace(result, row={name: _slim(v) for name, v in result.row.items()}, checks=[])


def _slim(value: Any) -> Any:  # noqa: ANN401 - any JSON type
    return {**value, "samples_us": []} if is_timing(value) else value


def in_order(results: Iterable[Result], planned: Sequence[Planned]) -> list[Result]:
    """Results as the tables have them: by position; cases of a whole script before the script."""
    places = {unit.key: unit.position for unit in planned}
    scripts = {(unit.file, unit.where): unit.position for unit in planned if unit.whole}

    def place(result: Result) -> tuple[int, bool]:
        unit = result.planned
        script = scripts.get((unit.file, unit.where), unit.position)
        return places.get(unit.key, script), unit.whole

    return sorted(results, key=place)
