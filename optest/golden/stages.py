"""The lines that a golden run prints: one where a stage starts, one where it is done."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def say(words: str) -> None:
    """``[RUN] words``, on standard output, where upstream's scripts and CI look for it."""
    print(f"[RUN] {words}", flush=True)  # noqa: T201 - the lines are part of the interface


def detail(words: str) -> None:
    """A line about the stage that runs."""
    say(f"  {words}")


@contextmanager
def stage(name: str) -> Iterator[None]:
    """``[RUN] name ...``, then ``[RUN] name done (0.00s)``, also where it ends by an exception."""
    say(f"{name} ...")
    started = time.perf_counter()
    try:
        yield
    finally:
        say(f"{name} done ({time.perf_counter() - started:.2f}s)")
