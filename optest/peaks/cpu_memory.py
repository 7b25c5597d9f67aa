"""Bandwidth of a CPU's memory levels, with one thread and with all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from optest import native
from optest.peaks import levels
from optest.peaks.effort import Effort, fastest_us
from optest.peaks.found import Found
from optest.peaks.levels import WorkingSet
from optest.store.records import Ceiling
from optest.store.roofline import MEMORY
from optest.timing.threads import threads
from optest.timing.wall import WallClock

# A thread goes through so much in a call, so that handing out the work (some 10 us) does not count.
_A_CALL = 64 << 20
_LEAST = 64 << 20
_FREE_SHARE = 4
Tell = Callable[[str], None]


def measured(effort: Effort, tell: Tell, root: Path = Path("/sys")) -> Found:
    """Read and copy bandwidth of every level.

    Args:
        effort: how much it may take.
        tell: is called with what comes next.
        root: the folder that ``/sys`` is.
    """
    found = Found()
    cores = _cores()
    caches = levels.read(root, cores)
    room = effort.memory_bytes or max(_free_bytes() // _FREE_SHARE, _LEAST)
    ops = native.csrc_or_none("peaks", "the bandwidth of caches is not measured")
    if ops is None:
        found.missing.append(f"caches: they need a kernel of csrc: {native.why_not()}")
    if not caches:
        found.missing.append(f"caches: {root}/devices/system/cpu tells none")
    for count in sorted({1, len(cores)}):
        for each in levels.working_sets(caches, count, room):
            if ops is None and each.name != MEMORY:
                continue
            tell(f"{each.name}, {count} thread{'s' * (count > 1)}")
            with threads(count):
                found.ceilings += _level(ops, each, count, effort.budget_s)
            if each.name == MEMORY and levels.holds(caches, each.nbytes):
                found.missing.append(
                    f"memory, threads: {count}: only {each.nbytes >> 20} MiB are free for it, "
                    "less than twice the caches: part of it may have come from them"
                )
    return found


def _level(ops: Any, each: WorkingSet, count: int, budget_s: float) -> list[Ceiling]:  # noqa: ANN401
    """Read one working set, and copy one half of it to the other."""
    half = each.nbytes // 2 // 4096 * 4096 or 4096
    read_s, read_bytes = _seconds(ops, _read(ops, each.nbytes), each.nbytes, count, budget_s)
    copy_s, copy_bytes = _seconds(ops, _copy(ops, half), half, count, budget_s)
    return [
        Ceiling("read", each.name, count, read_bytes / read_s, each.nbytes),
        Ceiling("copy", each.name, count, 2 * copy_bytes / copy_s, 2 * half),
    ]


_Call = tuple[Callable[..., Any], tuple[Any, ...]]


def _seconds(
    ops: object, call: _Call, nbytes: int, count: int, budget_s: float
) -> tuple[float, int]:
    """Seconds of the fastest call, and the bytes that it went through."""
    passes = 1 if ops is None else max(_A_CALL * count // nbytes, 1)
    func, args = call
    given = args if ops is None else (*args, passes)
    return fastest_us(func, given, budget_s, WallClock()) / 1e6, passes * nbytes


def _read(ops: Any, nbytes: int) -> _Call:  # noqa: ANN401
    x = _filled(nbytes)
    return (torch.sum, (x.view(torch.float32),)) if ops is None else (ops.read_passes, (x,))


def _copy(ops: Any, nbytes: int) -> _Call:  # noqa: ANN401
    to, source = _filled(nbytes), _filled(nbytes)
    return (torch.Tensor.copy_, (to, source)) if ops is None else (ops.copy_passes, (to, source))


def _filled(nbytes: int) -> torch.Tensor:
    """Written, by the threads that will read: untouched memory is one page of zeros."""
    return torch.empty(nbytes, dtype=torch.uint8).fill_(1)


def _cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return {*range(os.cpu_count() or 1)}


def _free_bytes() -> int:
    import psutil

    return int(psutil.virtual_memory().available)
