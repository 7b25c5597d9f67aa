"""Going on with a run that was not finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.errors import StoreError
from optest.store.records import BAD, Run
from optest.sweep.claim import is_taken
from optest.sweep.request import Request

if TYPE_CHECKING:
    from optest.store import Store

_LOOKED_AT = 50  # runs; who has left as many behind has no use for the oldest


def found(store: Store, ref: str) -> Run:
    """The run that ``ref`` names; where it is empty, the newest that nobody works on any more.

    Raises:
        StoreError: there is none; the message names what there is.
    """
    if ref:
        return store.find(ref)
    runs = store.runs(_LOOKED_AT)
    for run in runs:
        by_sweep = "ab" not in run.facts.arguments  # its files were a worktree's, which is gone
        if by_sweep and owes(run) and not is_taken(str(store), run.id):
            return run
    if not runs:
        raise StoreError(f"--resume: {store} holds no run yet: optest run PATH... makes one")
    raise StoreError(
        f"--resume: no run of {store} is unfinished; the newest is {runs[0].id}. "
        "Start another without --resume."
    )


def owes(run: Run) -> bool:
    """Whether there is anything that going on with it would do."""
    return run.state != "complete" or any(run.totals.get(each) for each in (*BAD, "missing"))


def request_of(run: Run, asked: Request) -> Request:
    """How the run was asked for, with what ``asked`` says of how, not of what, it is run.

    Raises:
        UsageError: ``asked`` says something that would make it another run.
        StoreError: the run was not made by a sweep, or by one that this version does not know.
    """
    stored = Request.from_arguments(run.facts.arguments)
    if not stored.paths:
        raise StoreError(f"--resume {run.id}: the store does not say which op tests it is about")
    return asked.resuming(stored, run.id)
