"""All ceilings of this machine, one after the other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from optest.store.records import Peaks, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from optest.peaks.effort import Effort


def measure_all(
    place: Place, effort: Effort, tell: Callable[[str], None]
) -> tuple[Peaks, list[str]]:
    """The ceilings of the device that tensors live on, and what could not be measured.

    Args:
        place: what this machine is.
        effort: how much it may take.
        tell: is called with what comes next.
    """
    from optest import arch
    from optest.peaks import cpu_memory, gpu_memory, launch, matrix
    from optest.peaks.doubts import doubts

    device = arch.get_gfx_runtime()
    if device.is_gpu:
        found = gpu_memory.measured(effort, tell, device.cache_bytes)
    else:
        found = cpu_memory.measured(effort, tell)
    found.add(matrix.measured(effort, tell, "cuda" if device.is_gpu else "cpu"))
    found.missing += [] if device.is_gpu else doubts(found.ceilings)
    tell("launch")
    found.add(launch.on_gpu() if device.is_gpu else launch.on_cpu())
    return Peaks(place, time.time(), tuple(found.ceilings)), found.missing
