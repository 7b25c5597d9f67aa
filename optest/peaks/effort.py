"""How much a measurement of ceilings may take, and the fastest call within that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optest.tensors import Snapshot
from optest.timing import Plan, measure

if TYPE_CHECKING:
    from optest.timing.clock import Clock


@dataclass(frozen=True)
class Effort:
    """Bounds of the whole.

    Attributes:
        budget_s: seconds of sampling for each ceiling.
        memory_bytes: that working sets may take at most; None is a quarter of what is free.
        longest_s: that a matrix product may take; its size is chosen so.
    """

    budget_s: float = 0.5
    memory_bytes: int | None = None
    longest_s: float = 0.02


def fastest_us(
    func: Callable[..., Any], args: tuple[Any, ...], budget_s: float, clock: Clock
) -> float:
    """Microseconds of the fastest of many calls, overhead taken out.

    A ceiling is what the machine can do when nothing gets in the way, so the fastest call is meant,
    not the median; calls that were preempted are left out as always. The clock is given, since
    no tensor is looked at that would say which device is meant.
    """
    plan = Plan(budget_s=budget_s, cache="warm", controls=False, num_warmup=1, clock=clock)
    # Operands may fill half the memory, and what they hold does not matter: none is remembered.
    return measure(func, args, plan=plan, snapshot=Snapshot([]))[1].min_us
