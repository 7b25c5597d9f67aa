"""Bandwidth of a GPU's memory levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.errors import ClockError, RefusedError
from optest.peaks.effort import Effort, fastest_us
from optest.peaks.found import Found
from optest.store.records import Ceiling
from optest.store.roofline import MEMORY
from optest.timing.event import cuda_event_clock
from optest.timing.graph import cuda_graph_clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optest.timing.clock import Clock

_MEMORY_BYTES = 4 << 30
_TIMES_CACHE = 8
_STEP = 4096


@dataclass(frozen=True)
class Device:
    """Torch's name of a device, and its clocks: events, and graphs for what is short."""

    name: str
    event: Callable[[], Clock]
    graph: Callable[[], Clock]


DEVICE = Device("cuda", cuda_event_clock, cuda_graph_clock)


def working_sets(cache_bytes: Mapping[int, int], room: int) -> Iterator[tuple[str, int]]:
    """Name and bytes of a working set for each cache level, and for memory.

    Args:
        cache_bytes: of each level, as ``Arch.cache_bytes`` has them.
        room: bytes that a working set may take.
    """
    before = 0
    for level, nbytes in sorted(cache_bytes.items()):
        wanted = nbytes // 2 if not before else math.isqrt(before * nbytes)
        yield f"L{level}", min(wanted, room) // _STEP * _STEP
        before = nbytes
    yield MEMORY, min(max(_MEMORY_BYTES, _TIMES_CACHE * before), room) // _STEP * _STEP


def measured(
    effort: Effort,
    tell: Callable[[str], None],
    cache_bytes: Mapping[int, int],
    device: Device = DEVICE,
) -> Found:
    """Read and copy bandwidth of every level, by torch's own kernels.

    Args:
        effort: how much it may take.
        tell: is called with what comes next.
        cache_bytes: of each level.
        device: what is measured, and with which clocks.
    """
    found = Found()
    room = effort.memory_bytes or torch.cuda.mem_get_info()[0] // 4
    for name, nbytes in working_sets(cache_bytes, room):
        tell(name)
        x = torch.ones(nbytes // 4, dtype=torch.float32, device=device.name)
        to, source = x[: len(x) // 2], x[len(x) // 2 :]
        # Short calls from a graph: launching each would take longer than the call.
        clock = device.event() if name == MEMORY else device.graph()
        for kind, func, args in (("read", torch.sum, (x,)), ("copy", to.copy_, (source,))):
            try:
                us = fastest_us(func, args, effort.budget_s, clock)
            except (ClockError, RefusedError) as error:
                found.missing.append(f"{kind}, {name}: {error}")
            else:
                found.ceilings.append(Ceiling(kind, name, 0, nbytes / us * 1e6, nbytes))
    return found
