"""Everything that is looked at, in the order in which it is told."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from optest.doctor import busy, cpu, gpu, limits, software, system
from optest.doctor.files import Files
from optest.doctor.item import Item

_LOOK_S = 0.5
_SPIN_S = 0.2


def examine(root: Path = Path("/"), seconds: float = _LOOK_S) -> list[Item]:
    """Look at this machine.

    Args:
        root: where ``proc``, ``sys`` and ``dev`` are.
        seconds: for how long other processes are watched.
    """
    files = Files(root)
    cores = usable_cores()
    before = files.text("proc/stat")
    processes = busy.working(seconds)
    after = files.text("proc/stat")
    return [
        *gpu.items(files),
        *software.items(len(cores)),
        *cpu.items(files, cores),
        *system.items(files, len(cores)),
        *limits.items(files, len(cores)),
        busy.judged(processes),
        system.stolen(before, after),
        busy.interrupted(busy.lost_share(_SPIN_S)),
    ]


def usable_cores() -> Collection[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)
