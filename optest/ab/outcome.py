"""What came of measuring two revisions in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from optest.ab.revision import Revision
from optest.store.records import Result, RunFacts
from optest.sweep.executor import Collection


@dataclass(frozen=True)
class Outcome:
    """Both sides, base first.

    Attributes:
        runs: their ids in the store; empty where nothing was left to run.
        facts: of the runs.
        results: of each case, with all its rounds.
        faulty: files that could be run on neither side.
        gated: files that asked for no case on a side.
        elsewhere: why nothing ran: the arch that was asked for is not here.
        rounds: how many were made whole.
        interrupted: whether it was stopped from outside.
        fault: why it had to stop.
    """

    revisions: tuple[Revision, Revision]
    runs: tuple[str, str] = ("", "")
    facts: tuple[RunFacts, RunFacts] = field(default_factory=lambda: (RunFacts(), RunFacts()))
    results: tuple[Sequence[Result], Sequence[Result]] = ((), ())
    faulty: Sequence[Collection] = ()
    gated: Sequence[Collection] = ()
    elsewhere: str = ""
    rounds: int = 0
    interrupted: bool = False
    fault: str = ""
    seconds: float = 0.0
