"""What is left to do on one kind of node, handed out in shares that shrink towards the end."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

_ROUNDS = 3  # shares that each station may expect of what is left
_LEAST_S = 1.0  # the start of a worker costs a twentieth of it, and what its script imports
_TRIES = 2


@dataclass(eq=False)
class Task(Generic[T]):
    """One thing to do.

    Attributes:
        group: tasks of one group are cheaper together: they share the import of their script.
        seconds: how long it may take; all alike where nothing is known.
        losses: how often it was lost while it ran.
    """

    item: T
    key: Hashable
    group: str
    seconds: float = 1.0
    losses: int = 0
    order: int = field(default=0, compare=False)


class Shares(Generic[T]):
    """Tasks in the order given, which is longest first.

    A share is at most a third of what each station could expect of the rest, so that stations end
    together; a task that was lost once goes alone, so that it takes no other along.
    """

    def __init__(self, tasks: Iterable[Task[T]]) -> None:
        self._waiting: dict[int, Task[T]] = {}
        self._groups: dict[str, list[int]] = {}
        for order, task in enumerate(tasks):
            task.order = order
            self._put(task)
        self._heap = list(self._waiting)
        self._seconds = sum(task.seconds for task in self._waiting.values())

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, stations: int) -> list[Task[T]]:
        """The next share for one of so many stations; empty where nothing is left."""
        first = self._first()
        if first is None:
            return []
        most = max(_LEAST_S, self._seconds / (max(stations, 1) * _ROUNDS))
        share = [self._take(first)]
        seconds = first.seconds
        mates = self._groups.get(first.group, [])
        while mates and not first.losses:
            mate = self._waiting.get(mates[0])
            if mate is None or mate.losses:
                heapq.heappop(mates)
                continue
            if seconds + mate.seconds > most:
                break
            share.append(self._take(mate))
            seconds += mate.seconds
        return share

    def give_back(self, tasks: Sequence[Task[T]]) -> None:
        """What was taken and not done, to its place in the order."""
        for task in tasks:
            self._put(task)
            heapq.heappush(self._heap, task.order)
            self._seconds += task.seconds

    def lost(self, tasks: Sequence[Task[T]], running: Iterable[Hashable]) -> list[Task[T]]:
        """Give back what a lost station had; returns what was lost too often to be tried again."""
        at_fault = set(running)
        for task in tasks:
            task.losses += task.key in at_fault
        self.give_back([task for task in tasks if task.losses < _TRIES])
        return [task for task in tasks if task.losses >= _TRIES]

    def take_all(self) -> list[Task[T]]:
        """Everything that is left."""
        return [self._take(self._waiting[order]) for order in sorted(self._waiting)]

    def _first(self) -> Task[T] | None:
        while self._heap:
            if self._heap[0] in self._waiting:
                return self._waiting[self._heap[0]]
            heapq.heappop(self._heap)
        return None

    def _put(self, task: Task[T]) -> None:
        self._waiting[task.order] = task
        heapq.heappush(self._groups.setdefault(task.group, []), task.order)

    def _take(self, task: Task[T]) -> Task[T]:
        del self._waiting[task.order]
        self._seconds -= task.seconds
        return task
