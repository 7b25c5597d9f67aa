"""Memory: how fast it is copied, and how freed memory is used again."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import torch

from kernels.contest import Call
from kernels.inputs import random_rows, rows_of


def copies(mib: int) -> tuple[int, list[Call]]:
    """The bytes one copy moves, and the ways of copying; the faster one is the yardstick."""
    source = random_rows(rows_of(mib, 4096), 4096)
    target = torch.empty_like(source)
    pool = ThreadPoolExecutor(torch.get_num_threads())
    part = source.nbytes // torch.get_num_threads()

    def one(index: int) -> None:
        at = index * part
        ctypes.memmove(target.data_ptr() + at, source.data_ptr() + at, part)

    def threads() -> None:
        list(pool.map(one, range(torch.get_num_threads())))

    return 2 * source.nbytes, [lambda: target.copy_(source), threads]


def keep_freed_memory() -> None:
    """Have malloc hand freed memory out again instead of giving it back page by page (glibc)."""
    mmap_max, trim_threshold = -4, -1
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 2**31 - 1)
