"""Threads of this process, those of native code too."""

from __future__ import annotations

import threading
import time
from pathlib import Path

_TASKS = Path("/proc/self/task")


def alive() -> frozenset[int]:
    """Ids of the threads that live now; without Linux's /proc, of Python's own alone."""
    if _TASKS.is_dir():
        return frozenset(int(each.name) for each in _TASKS.iterdir())
    return frozenset(each.native_id for each in threading.enumerate() if each.native_id)


def wait_for(these: frozenset[int], seconds: float) -> frozenset[int]:
    """Wait until none of them lives, at most so long; returns those that still do."""
    end = time.monotonic() + seconds
    left = these & alive()
    while left and time.monotonic() < end:
        time.sleep(0.002)
        left = left & alive()
    return left
