"""The wall clock: for functions whose work is done when they return, or after ``sync``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optest.timing import preemption
from optest.timing.clock import Reading
from optest.units import NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optest.timing.clock import Arguments, Before, Target


@dataclass(frozen=True)
class WallClock:
    """``time.perf_counter_ns`` around each call.

    Attributes:
        sync: waits for a device, within the time taken; None on a CPU.
    """

    sync: Callable[[], object] | None = None
    name: str = "wall"
    resolution_us: float = 1e-3
    reads_host: bool = True

    def time(self, targets: Sequence[Target], rounds: int, before: Before) -> list[Reading]:
        """Time each call by itself, the targets in turn.

        The turns matter to a fraction of a microsecond, and to ten where a neighbour keeps emptying
        the caches: a kernel timed right after a no-op, and a no-op right after a kernel, find the
        interpreter about equally warm.
        """
        readings = [Reading() for _ in targets]
        for index in range(rounds):
            if before is not None:
                before()
            for target, reading in zip(targets, readings, strict=True):
                self._one(target.func, target.sets[index % len(target.sets)], reading)
                if target.after is not None:
                    target.after(reading.data)
        return readings

    def _one(self, func: Callable[..., Any], arguments: Arguments, reading: Reading) -> None:
        now, switches, sync = time.perf_counter_ns, preemption.switches, self.sync
        args, kwargs = arguments
        if sync is None:
            seen = switches()
            start = now()
            data = func(*args, **kwargs)
            end = now()
        else:
            sync()
            seen = switches()
            start = now()
            data = func(*args, **kwargs)
            sync()
            end = now()
        reading.preempted.append(switches() != seen)
        reading.us.append((end - start) / NS_PER_US)
        reading.data = data
        reading.calls += 1
