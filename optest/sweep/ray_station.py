"""A station: what runs on a node. Its local executor works, its results go back one by one."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from optest.store.records import Place, Planned, Result
from optest.sweep.devices import local_lanes
from optest.sweep.executor import Collection, Job, Work
from optest.sweep.lane import Lane
from optest.sweep.local import LocalExecutor

BEGIN, DONE, EXTRA, KEPT = "begin", "done", "extra", "kept"

Message = tuple[str, Hashable, Any]
Tell = Callable[[Message], None]


class Station:
    """An actor of Ray.

    Args:
        folder: where scripts run, relative to the project that arrived.
        beside: how many stations its node may hold; they divide its cores.
    """

    def __init__(self, job: Job, folder: str, beside: int) -> None:
        there = replace(job, folder=Path.cwd() / folder)
        self._executor = LocalExecutor(there, _lanes(beside))
        self._executor.__enter__()

    def place(self) -> Place:
        """What it runs on."""
        return self._executor.place()

    def collect(self, files: Sequence[str]) -> Iterator[Message]:
        """The cases of each file, as they are found."""

        def tell_each(tell: Tell) -> None:
            def found(collection: Collection) -> None:
                tell((DONE, collection.file, collection))

            self._executor.collect(files, found)

        yield from _streamed(tell_each)

    def run(self, work: Sequence[Work]) -> Iterator[Message]:
        """What becomes of each unit, as it happens."""
        asked = {each.planned.key for each in work}

        def tell_each(tell: Tell) -> None:
            def begin(planned: Planned) -> None:
                tell((BEGIN, planned.key, None))

            def take(result: Result) -> None:
                key = result.planned.key
                tell((DONE if key in asked else EXTRA, key, result))

            self._executor.run(work, begin, take)

        yield from _streamed(tell_each)

    def stop(self) -> None:
        """End what runs."""
        self._executor.stop()

    def close(self) -> None:
        """End every process it started."""
        self._executor.__exit__(None, None, None)


def _lanes(beside: int) -> list[Lane]:
    """A lane for each GPU that Ray gave the station; without one, its part of the cores."""
    lanes = local_lanes()
    if beside == 1 or any(lane.device for lane in lanes):
        return lanes
    return [Lane(threads=max(1, (os.cpu_count() or 1) // beside))]


def _streamed(call: Callable[[Tell], None]) -> Iterator[Message]:
    """What ``call`` tells, from a thread of its own, as a stream.

    Telling of a result returns once it was kept. A stream goes on when what it gave was taken over,
    which is before it is kept; when the next of it is asked for, the one before was.
    """
    told: queue.SimpleQueue[tuple[Message, threading.Event] | None] = queue.SimpleQueue()
    raised: list[BaseException] = []

    def tell(message: Message) -> None:
        kept = threading.Event()
        told.put((message, kept))
        if message[0] != BEGIN:
            kept.wait()

    def work() -> None:
        try:
            call(tell)
        except BaseException as error:  # noqa: BLE001 - raised where the stream is read
            raised.append(error)
        finally:
            told.put(None)

    thread = threading.Thread(target=work, name="optest-station", daemon=True)
    thread.start()
    while (next_ := told.get()) is not None:
        message, kept = next_
        yield message
        if message[0] != BEGIN:
            yield (KEPT, None, None)
            kept.set()
    thread.join()
    for error in raised:
        raise error
