"""Watches one child: takes all it prints and tells, holds it to its limits, sees it end."""

from __future__ import annotations

import selectors
import signal
import time
from collections import deque
from typing import TYPE_CHECKING

from optest.sweep import processes
from optest.sweep.death import Death

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from optest.sweep.executor import Limits
    from optest.sweep.nursery import Child
    from optest.sweep.wire import Message

_MEMORY_EVERY_S = 0.05
_STACKS_WITHIN_S = 0.5
_ENDS_WITHIN_S = 15.0
_BORN_WITHIN_S = 120.0
_PIECE = 16


class Watch:
    """What a child tells, one message at a time, and then its death.

    Args:
        stop: a descriptor that is ready to be read once the run is to stop.
    """

    def __init__(self, child: Child, limits: Limits, stop: int) -> None:
        self.child = child
        self._stop_fd = stop
        self._limits = limits
        self._messages: deque[Message] = deque()
        self._broken: Death | None = None
        self._death: Death | None = None
        self._kills = processes.out_of_memory_kills()
        self._next_look = 0.0
        self._selector = selectors.DefaultSelector()
        for fd, take in (
            (child.status.fd, child.look),
            (child.output.fd, self._take_output),
            (child.wire.fd, self._take_messages),
            (child.fault.fd, child.fault.read),
            (stop, self._stop),
        ):
            self._selector.register(fd, selectors.EVENT_READ, take)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill it where it runs, wait until nothing of it is left, and let go of it."""
        self._kill()
        self._selector.close()
        self.child.close()

    def next(self, deadline: float) -> Message | Death:
        """What comes next; its death, again and again, once it has ended or passed a limit."""
        while True:
            if self._messages:
                return self._messages.popleft()
            if self._death is not None:
                return self._death
            self.wait(deadline, deadline)

    def wait(self, until: float, deadline: float) -> None:
        """Take what comes until then; past the deadline it is killed (both: monotonic clock)."""
        pause = min(until, deadline) - time.monotonic()
        if self._limits.memory_bytes is not None:
            pause = min(pause, _MEMORY_EVERY_S)
        self._step(max(0.0, pause))
        self._look(deadline)

    @property
    def death(self) -> Death | None:
        """Its death, if it is known already."""
        return self._death

    def born(self) -> None:
        """Wait until it is there: the first has to wait for the nursery, which imports torch."""
        latest = time.monotonic() + _BORN_WITHIN_S
        while self.child.pid is None and self._death is None:
            self.wait(latest, latest)

    def restart(self) -> None:
        """Something new begins: what it printed until now belongs to something else."""
        for tail in (self.child.output, self.child.fault):
            tail.restart()

    def settle(self) -> bool:
        """Take all it has printed until now; False where that passes a limit, or it has ended."""
        self.child.output.read()
        self.child.look()
        self._look(float("inf"))
        return self._death is None and not self._broken

    def _step(self, pause: float) -> None:
        for key, _ in self._selector.select(pause):
            take: Callable[[], object] = key.data
            take()
        for reader in (self.child.output, self.child.wire, self.child.fault, self.child.status):
            if reader.ended and reader.fd in self._selector.get_map():
                self._selector.unregister(reader.fd)

    def _take_output(self) -> None:
        self.child.output.read(_PIECE)

    def _take_messages(self) -> None:
        self._messages += self.child.wire.read()

    def _stop(self) -> None:
        self._selector.unregister(self._stop_fd)  # it stays ready
        if self._broken is None:
            self._break(Death("stopped"))

    def _look(self, deadline: float) -> None:
        if self.child.over:
            self._conclude()
        elif self._broken is None:
            broken = self._limit_passed(deadline)
            if broken is not None:
                self._break(broken)

    def _limit_passed(self, deadline: float) -> Death | None:
        if time.monotonic() >= deadline:
            limit = self._limits.seconds if self.child.pid else _BORN_WITHIN_S
            return Death("time", limit=limit)
        if self.child.output.count > self._limits.output_bytes:
            return Death("output", limit=self._limits.output_bytes)
        most = self._limits.memory_bytes
        if most is not None and time.monotonic() >= self._next_look and self.child.pid:
            self._next_look = time.monotonic() + _MEMORY_EVERY_S
            pids = processes.family(self.child.pid)
            # The cheap sum counts shared pages more than once: it may accuse, not judge.
            if processes.resident_bytes(pids) > most and processes.proportional_bytes(pids) > most:
                return Death("memory", limit=most)
        return None

    def _break(self, broken: Death) -> None:
        self._broken = broken
        if broken.kind == "time":
            self._ask_for_stacks()
        self._kill()
        self._conclude()

    def _kill(self) -> None:
        # One whose number is not known yet is killed by the nursery, once nobody listens to it.
        self.child.look()
        self.child.signal(signal.SIGKILL)
        latest = time.monotonic() + _ENDS_WITHIN_S
        while self.child.pid is not None and not self.child.over and time.monotonic() < latest:
            self._step(0.1)

    def _ask_for_stacks(self) -> None:
        self.child.signal(self.child.stacks)
        latest = time.monotonic() + _STACKS_WITHIN_S
        before = -1
        while not self.child.over and time.monotonic() < latest:
            # Written in one go: once some has come and no more does, it is all.
            if self.child.fault.count and self.child.fault.count == before:
                return
            before = self.child.fault.count
            self._step(0.02)

    def _conclude(self) -> None:
        child = self.child
        for tail in (child.output, child.fault):
            tail.read()
        self._messages += child.wire.read()
        broken = self._broken
        kind = "ended" if child.ended is not None else "lost"
        self._death = Death(
            kind="refused" if child.refused else broken.kind if broken else kind,
            status=child.ended,
            limit=broken.limit if broken else 0.0,
            output=child.output.text,
            stacks=child.fault.text,
            starved=processes.out_of_memory_kills() > self._kills,
            refusal=child.refused,
        )
