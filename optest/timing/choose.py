"""Which clock a measurement gets: the one asked for, where it can see the work at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from optest.timing.event import cuda_event_clock
from optest.timing.graph import cuda_graph_clock
from optest.timing.profiler import cuda_profiler_clock
from optest.timing.wall import WallClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optest.timing.clock import Clock

_ON_DEVICE: dict[str, Callable[[], Clock]] = {
    "event": cuda_event_clock,
    "graph": cuda_graph_clock,
    "profiler": cuda_profiler_clock,
}


def device_of(tensors: Sequence[torch.Tensor]) -> str:
    """``cuda`` where any tensor lives on a CUDA or ROCm device, else ``cpu``."""
    return "cuda" if any(tensor.is_cuda for tensor in tensors) else "cpu"


def choose(wanted: str | Clock | None, device: str) -> tuple[Clock, str]:
    """A clock for work on ``device``, and a note where it is not the one asked for.

    A device clock would read nothing from a function whose tensors live on the CPU, so that gets
    the wall clock.
    """
    if wanted is not None and not isinstance(wanted, str):
        return wanted, ""
    if device == "cuda" and wanted != "wall":
        return _ON_DEVICE[wanted or "event"](), ""
    # Without tensors to go by the function may still use the device: wait for it.
    clock = WallClock(torch.cuda.synchronize if torch.cuda.is_available() else None)
    if wanted in (None, "wall"):
        return clock, ""
    return clock, f"wall clock: no tensor on a device for the {wanted} clock to see"
