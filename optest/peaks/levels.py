"""The memory levels of a CPU, and how much of each a working set takes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from optest.store.roofline import MEMORY

_CPUS = "devices/system/cpu"
_KINDS = ("Data", "Unified")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}
_BLOCK = 4096
_UNKNOWN_CACHE = 64 << 20


@dataclass(frozen=True)
class Level:
    """A cache level.

    Attributes:
        nbytes: of one of these caches.
        instances: how many of them the cores that are used have between them.
    """

    level: int
    nbytes: int
    instances: int


@dataclass(frozen=True)
class WorkingSet:
    """How many bytes to go through so that one level answers."""

    name: str
    nbytes: int


def read(root: Path, cpus: Collection[int]) -> list[Level]:
    """The caches of ``cpus`` that hold data, nearest first; empty where the system tells nothing.

    Args:
        root: the folder that ``/sys`` is.
        cpus: numbers of the cores that are used.
    """
    sizes: dict[int, int] = {}
    shared: dict[int, set[str]] = {}
    for cpu in sorted(cpus):
        for index in sorted((root / _CPUS / f"cpu{cpu}" / "cache").glob("index*")):
            kind, level, size = (_text(index / name) for name in ("type", "level", "size"))
            if kind in _KINDS and level.isdecimal() and _bytes(size):
                sizes[int(level)] = _bytes(size)
                # Where it is not told who shares a cache, each core has its own.
                shared.setdefault(int(level), set()).add(
                    _text(index / "shared_cpu_list") or str(cpu)
                )
    return [Level(level, sizes[level], len(shared[level])) for level in sorted(sizes)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _bytes(text: str) -> int:
    """``307200K`` is 314572800; 0 for what is no size."""
    matched = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(matched[1]) << _UNITS[matched[2]] if matched else 0


def working_sets(levels: Iterable[Level], threads: int, room: int) -> list[WorkingSet]:
    """One working set for each level and one for memory.

    Half of the nearest cache, so that what else is going on fits too; of each further level the
    geometric mean of its size and the size of the one before, far from both edges; of memory four
    times the last level, as STREAM asks for (McCalpin), or ``room`` where that is less.

    A level that holds no more than the one before is left out: nothing is in it alone. So is one
    whose working set passes ``room``.

    Args:
        levels: as ``read`` gives them.
        threads: 1, or all of the cores: then the caches of all together are filled.
        room: bytes that a working set may take.
    """
    found: list[WorkingSet] = []
    before = 0
    for each in levels:
        whole = each.nbytes * (each.instances if threads > 1 else 1)
        if whole <= before:
            continue
        wanted = whole // 2 if not before else math.isqrt(before * whole)
        found.append(WorkingSet(f"L{each.level}", _blocks(wanted, threads)))
        before = whole
    last = before or _UNKNOWN_CACHE
    found.append(WorkingSet(MEMORY, _blocks(min(4 * last, room), threads)))
    return [each for each in found if each.name == MEMORY or each.nbytes <= room]


def holds(levels: Iterable[Level], nbytes: int) -> bool:
    """Whether a working set for memory may still fit the caches, at least by half."""
    total = max((each.nbytes * each.instances for each in levels), default=0)
    return nbytes < 2 * total


def _blocks(nbytes: int, threads: int) -> int:
    """Whole pages, as many for each thread."""
    step = _BLOCK * threads
    return max(nbytes // step, 1) * step
