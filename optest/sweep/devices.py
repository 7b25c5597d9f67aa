"""The lanes of this machine: one for each visible GPU, else groups of cores."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from optest.sweep.death import Death
from optest.sweep.executor import Limits
from optest.sweep.lane import core_lanes, device_lanes
from optest.sweep.nursery import Nursery, Request
from optest.sweep.watch import Watch

if TYPE_CHECKING:
    from optest.sweep.lane import Lane

# What the drivers put there; without one of these there is no need to start a runtime and ask.
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_WITHIN_S = 120.0


def local_lanes(jobs: int | None = None) -> list[Lane]:
    """One lane for each visible GPU, at most ``jobs``; without a GPU ``jobs`` groups of cores.

    Raises:
        UsageError: ``jobs`` is below one, or above the cores of a machine without a GPU.
    """
    lanes: list[Lane] = []
    if any(Path(name).exists() for name in _DEVICE_FILES):
        lanes = _gpu_lanes()
    if jobs is None and lanes:
        return lanes
    return lanes[:jobs] if lanes and jobs and jobs > 0 else core_lanes(1 if jobs is None else jobs)


def _gpu_lanes() -> list[Lane]:
    """Found by a child: asking starts the runtime, which would stay in this process."""
    reading, writing = os.pipe()
    try:
        with tempfile.TemporaryDirectory(prefix="optest-") as scratch:
            folder = Path(scratch)
            with Nursery(folder) as nursery:
                child = nursery.fork(Request("devices", folder))
                with Watch(child, Limits(_WITHIN_S), reading) as watch:
                    told = watch.next(time.monotonic() + _WITHIN_S)
    finally:
        os.close(reading)
        os.close(writing)
    if isinstance(told, Death):
        return []
    return device_lanes(list(told["memory"]), hip=bool(told["hip"]), environment=os.environ)
