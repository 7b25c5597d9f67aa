"""Blocks of a pass on the CPU, shared out among few threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# More would wait for each other: between two operations each needs the interpreter.
_MOST = 4
# Fewer bytes than this for each are done before the workers have started.
_ENOUGH = 1 << 21


@dataclass(frozen=True)
class Workers:
    """Threads that each take the next block when they are free, with a share of torch's threads.

    Torch shares each operation out among its threads and waits for the last of them. Where anything
    else keeps a core busy that is a wait for every operation; workers wait for each other once.

    Attributes:
        count: how many.
        threads: torch's for each.
    """

    count: int
    threads: int

    @classmethod
    def of(cls, nbytes: int) -> Workers:
        """For so many bytes in all."""
        threads = torch.get_num_threads()
        count = max(1, min(threads, _MOST, nbytes // _ENOUGH))
        return cls(count, max(1, threads // count))

    def run(self, work: Callable[[Iterator[int]], None], blocks: int) -> None:
        """Call ``work`` in each with the numbers below ``blocks`` that no other has taken yet."""
        numbers = iter(range(blocks))
        if self.count == 1:
            work(numbers)
            return
        before = torch.get_num_threads()
        try:
            # Each thread has a number of its own, but the last that was set is that of new ones.
            with ThreadPoolExecutor(
                self.count, initializer=torch.set_num_threads, initargs=(self.threads,)
            ) as pool:
                for done in [pool.submit(work, numbers) for _ in range(self.count)]:
                    done.result()
        finally:
            torch.set_num_threads(before)
