"""Two executors that run the same units, one unit of one of them at a time, in an order given."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from optest.store.records import Planned
from optest.sweep.case_worker import StoppedError

_LOOKS_EVERY_S = 0.2

Key = tuple[str, str, str]
Turn = tuple[int, Key]  # the side, and the unit that it runs


class Turns:
    """Whose turn it is. Of the other side nothing runs meanwhile; its processes wait."""

    def __init__(self, order: Sequence[Turn]) -> None:
        self._order = deque(order)
        self._changed = threading.Condition()
        self._stopped = False

    def wait(self, side: int, unit: Planned) -> None:
        """Until it is the turn of this side with this unit.

        Raises:
            StoppedError: the turns were stopped.
        """
        with self._changed:
            while not self._stopped and self._order and self._order[0] != (side, unit.key):
                self._changed.wait(_LOOKS_EVERY_S)  # a signal handler cannot notify
            if self._stopped:
                raise StoppedError

    def done(self, side: int, unit: Planned) -> None:
        """The turn is over, where it was this one's; else nothing happens."""
        with self._changed:
            if self._order and self._order[0] == (side, unit.key):
                self._order.popleft()
                self._changed.notify_all()

    def leave(self, side: int) -> None:
        """This side runs nothing any more, whatever turns it still had."""
        with self._changed:
            self._order = deque(turn for turn in self._order if turn[0] != side)
            self._changed.notify_all()

    def stop(self) -> None:
        """Nobody's turn comes any more. May be called from a signal handler."""
        self._stopped = True


def alternating(units: Sequence[tuple[Planned | None, Planned | None]], number: int) -> list[Turn]:
    """The turns of one round: base, head, head, base, and so on; the next round the other way.

    So does each unit over the rounds: what grows slower with time does so for both sides alike.

    Args:
        units: the same unit of base and of head; None where a side does not have it.
        number: of the round, from 0.
    """
    order: list[Turn] = []
    for at, pair in enumerate(units):
        sides = (0, 1) if (at + number) % 2 == 0 else (1, 0)
        order += [(side, unit.key) for side in sides if (unit := pair[side]) is not None]
    return order
