"""The wall clock: for kernels that have finished when they return."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optest.timing import preemption
from optest.timing.clock import Reading
from optest.units import NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from optest.timing.clock import Target


@dataclass(frozen=True)
class WallClock:
    """``time.perf_counter_ns`` around one call."""

    name: str = "wall"
    resolution_us: float = 1e-3

    def time(self, target: Target, count: int, before: Callable[[], object] | None) -> Reading:
        """Time ``count`` calls one by one; a call counts as preempted when the kernel says so."""
        func, sets = target.func, target.sets
        now, switches = time.perf_counter_ns, preemption.switches
        reading = Reading()
        last = None
        for index in range(count):
            args, kwargs = sets[index % len(sets)]
            if before is not None:
                before()
            seen = switches()
            start = now()
            last = func(*args, **kwargs)
            end = now()
            reading.us.append((end - start) / NS_PER_US)
            reading.preempted.append(switches() != seen)
        reading.data = last
        return reading
