"""Device events: for kernels that run on after the call that launched them has returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optest.timing.clock import Reading
from optest.units import US_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optest.timing.clock import Before, Target


@dataclass(frozen=True)
class EventClock:
    """A pair of events around each call on the current stream; one synchronisation a batch.

    What a function leaves running on a stream of its own, without joining it, is not seen.

    Attributes:
        make_event: a new ``torch.cuda.Event`` that takes times.
        sync: waits until the device is idle.
    """

    make_event: Callable[[], Any]
    sync: Callable[[], object]
    name: str = "event"
    resolution_us: float = 0.5
    reads_host: bool = True

    def time(self, targets: Sequence[Target], rounds: int, before: Before) -> list[Reading]:
        """Enqueue all calls with their events, wait once, then read the events."""
        readings = [Reading(calls=rounds, preempted=[False] * rounds) for _ in targets]
        pairs: list[list[tuple[Any, Any]]] = [[] for _ in targets]
        self.sync()
        for index in range(rounds):
            if before is not None:
                before()
            for target, reading, made in zip(targets, readings, pairs, strict=True):
                args, kwargs = target.sets[index % len(target.sets)]
                start, end = self.make_event(), self.make_event()
                start.record()
                reading.data = target.func(*args, **kwargs)
                end.record()
                made.append((start, end))
        self.sync()
        for reading, made in zip(readings, pairs, strict=True):
            reading.us = [start.elapsed_time(end) * US_PER_MS for start, end in made]
        return readings


def timing_event() -> Any:  # noqa: ANN401 - torch leaves its events untyped
    """A new device event that takes times."""
    import torch

    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def cuda_event_clock() -> EventClock:
    """The event clock of the current CUDA or ROCm device."""
    import torch

    return EventClock(timing_event, torch.cuda.synchronize)
