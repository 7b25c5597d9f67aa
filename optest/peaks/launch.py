"""What a launch costs: an operator of csrc that does nothing, a kernel that does nearly nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from optest import native, stats
from optest.peaks.found import Found
from optest.store.records import Ceiling
from optest.timing.clock import Target
from optest.timing.wall import WallClock

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 2_000
_A_BATCH = 100


def on_cpu(rounds: int = _ROUNDS) -> Found:
    """Microseconds of an empty operator of csrc, an empty Python call taken out."""
    ops = native.csrc_or_none("harness", "the cost of a call is not measured")
    if ops is None:
        return Found(missing=[f"launch: it needs an operator of csrc: {native.why_not()}"])
    x = torch.zeros(1)
    targets = [Target(_nothing, (((x,), {}),)), Target(ops.noop, (((x,), {}),))]
    python, operator = (stats.median(r.us) for r in WallClock().time(targets, rounds, None))
    return Found([Ceiling("launch", "csrc", 1, max(operator - python, 1e-3))])


def on_gpu(
    launch: Callable[[], object] = lambda: torch.cuda._sleep(0),  # type: ignore[no-untyped-call] # noqa: SLF001 - a kernel that returns at once
    sync: Callable[[], object] = torch.cuda.synchronize,
    rounds: int = _ROUNDS // _A_BATCH,
) -> Found:
    """Microseconds from one launch to the next, where nothing but launches is asked for."""

    def many() -> None:
        for _ in range(_A_BATCH):
            launch()

    many()
    [reading] = WallClock(sync).time([Target(many)], rounds, None)
    return Found([Ceiling("launch", "kernel", 0, stats.median(reading.us) / _A_BATCH)])


def _nothing(_x: torch.Tensor) -> None:
    """Do nothing."""
