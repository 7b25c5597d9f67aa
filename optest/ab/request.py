"""How an A/B measurement was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from optest.sweep.request import Request

ROUNDS = 12


@dataclass(frozen=True)
class AbRequest:
    """Two words for revisions, and what is run of them.

    Attributes:
        build: the words of a command that is run at the top of each worktree first; empty for none.
        rounds: how often each case is run on each side.
        sweep: op tests, their arguments and filters, as of ``optest run``.
    """

    base: str
    head: str
    build: tuple[str, ...] = ()
    rounds: int = ROUNDS
    sweep: Request = field(default_factory=Request)
