"""Who else works on this machine just now, and what a thread that only looks at the clock loses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from optest.doctor.item import Item

_TAKES, _TAKES_MUCH = 0.1, 0.5  # cores
_SHOWN = 5
_GAP_NS = 20_000  # an interrupt takes a few microseconds, another thread's turn milliseconds
_LOST, _LOST_MUCH = 0.01, 0.1
_NAME = 40


@dataclass(frozen=True)
class Process:
    """A process, and how many cores' worth of time it took."""

    pid: int
    name: str
    cores: float


def working(seconds: float) -> list[Process]:
    """The other processes that took time during the next ``seconds``, the greediest first."""
    import psutil

    own = {os.getpid(), *(each.pid for each in psutil.Process().parents())}
    seen = [each for each in psutil.process_iter(["pid", "name"]) if each.pid not in own]
    for each in seen:
        _cores_of(each)  # the first answer is always 0
    time.sleep(seconds)
    found = (Process(each.pid, each.info["name"] or "?", _cores_of(each)) for each in seen)
    return sorted((p for p in found if p.cores > 0), key=lambda p: p.cores, reverse=True)


def _cores_of(process: object) -> float:
    import psutil

    assert isinstance(process, psutil.Process)
    try:
        return process.cpu_percent() / 100
    except psutil.Error:  # it has ended, or is none of ours
        return 0.0


def judged(processes: Iterable[Process]) -> Item:
    """What the others' work means for timings."""
    busy = [each for each in processes if each.cores >= _TAKES / 2]
    total = sum(each.cores for each in busy)
    if total < _TAKES:
        return Item("other processes", "idle")
    shown = ", ".join(
        f"{_one_line(each.name)} ({each.pid}) {each.cores:.1f}" for each in busy[:_SHOWN]
    )
    more = f" and {len(busy) - _SHOWN} more" if len(busy) > _SHOWN else ""
    return Item(
        "other processes",
        f"{total:.1f} cores: {shown}{more}",
        "bad" if total >= _TAKES_MUCH else "warning",
        "they take turns on the cores, empty the caches and use memory's bandwidth",
        "end them, or wait",
    )


def _one_line(name: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())[:_NAME]


def lost_share(seconds: float, now: Callable[[], int] = time.perf_counter_ns) -> float:
    """Share of the time that a thread which only reads the clock was kept from reading it.

    Args:
        seconds: for how long it reads.
        now: a clock in nanoseconds.
    """
    start = last = now()
    end = start + round(seconds * 1e9)
    lost = 0
    while last < end:
        read = now()
        if read - last > _GAP_NS:
            lost += read - last
        last = read
    return lost / (last - start) if last > start else 0.0


def interrupted(share: float) -> Item:
    """What that share means for timings."""
    words = f"{share:.1%} of the time"
    if share < _LOST:
        return Item("kept from working", words)
    return Item(
        "kept from working",
        words,
        "bad" if share >= _LOST_MUCH else "warning",
        "a thread that only looks at the clock is stopped for more than 20 us at a time: by other "
        "processes, interrupts or the host",
        "cores of its own: taskset, isolcpus, or a quiet machine",
    )
