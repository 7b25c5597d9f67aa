"""Memory that a candidate keeps from call to call."""

from __future__ import annotations

import ctypes
import functools
import gc
import time
from typing import TYPE_CHECKING

import torch

from optest.guards import memory
from optest.guards.finding import Finding
from optest.guards.memory import Guard
from optest.log import once

if TYPE_CHECKING:
    from collections.abc import Callable

# Less than any result of an operator, more than an entry in a log or a counter that grows a digit.
_LEAST_BYTES = 512
_CONFIRMING = 2
_BLOCKS = 2
# Other threads may take so much more in one stretch of time than in the next.
_UNSTEADY = 2
# A thread that has been joined ends a little later: until then its caches are in use, and a thread
# that starts meanwhile gets an arena of its own.
_THREADS_END_S = 0.02
# glibc keeps blocks up to 1032 bytes for each thread, in steps of 16, at most 7 of a size.
_CACHED_SIZES = range(24, 1_040, 16)
_CACHED_OF_A_SIZE = 8


class _Mallinfo2(ctypes.Structure):
    """glibc's ``struct mallinfo2``: counts of bytes over all arenas."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )
    uordblks: int
    hblkhd: int


@functools.cache
def _mallinfo() -> Callable[[], _Mallinfo2] | None:
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is None:
        once("memory kept from call to call is not watched: the C library does not count it")
        return None
    function.restype = _Mallinfo2
    return function  # type: ignore[no-any-return]


@functools.cache
def _heap() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    return library


def _fill_caches() -> None:
    """Fill this thread's cache of freed blocks, which the C library counts as in use (0.5 ms).

    It takes up what the first calls of a kernel free, some of each size, and looks like a leak.
    """
    heap = _heap()
    blocks = [heap.malloc(size) for size in _CACHED_SIZES for _ in range(_CACHED_OF_A_SIZE)]
    for block in blocks:
        heap.free(block)


def in_use() -> int:
    """Bytes that the process has from the C library, torch's CPU tensors included, and on GPUs."""
    read = _mallinfo()
    total = memory.live_bytes(Guard.PAGES)
    if read is not None:
        _fill_caches()
        counts = read()
        total += counts.uordblks + counts.hblkhd
    if torch.cuda.is_available():
        total += torch.cuda.memory_allocated()
    return total


class Growth:
    """Readings of the memory in use, the first as this is made, one more after each call."""

    def __init__(self) -> None:
        self._readings = [in_use()]

    def read(self) -> None:
        """Take a reading; whatever a call returned has been let go of."""
        self._readings.append(in_use())

    def finding(self, call: Callable[[], object]) -> Finding | None:
        """Whether the calls left more in use; where it looks so, more are made.

        One step may be a cache that is filled once, and every second call may be the one that
        keeps something: what counts is the sum, and that it goes on.
        """
        calls = len(self._readings) - 1
        grown = self._readings[-1] - self._readings[0]
        if grown < calls * _LEAST_BYTES:
            return None
        # Twice: a slow spell may fall on the stretch in which others are watched.
        for _ in range(_BLOCKS):
            later = _kept_beyond_cycles(call)
            if later < _CONFIRMING * _LEAST_BYTES:
                return None
        return Finding(
            "memory",
            f"{calls} calls on the same inputs left {grown} more bytes in use, and {_CONFIRMING} "
            f"further ones {later} that no garbage collection frees",
            "it keeps its results or forgets to free its workspace; a long run ends for lack of "
            "memory",
        )


def _kept_beyond_cycles(call: Callable[[], object]) -> int:
    """What further calls leave in use that the garbage collector does not free.

    What other threads take in the same time, in which nothing is called, is theirs.
    """
    gc.collect()  # 0.1 s: only where something grew
    time.sleep(_THREADS_END_S)
    before, started = in_use(), time.monotonic()
    for _ in range(_CONFIRMING):
        call()
        time.sleep(_THREADS_END_S)
    seconds = time.monotonic() - started
    gc.collect()
    after = in_use()
    time.sleep(seconds)
    gc.collect()
    others = in_use() - after
    return after - before - _UNSTEADY * max(others, 0)
