"""What comes before each timed call, and is not timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optest.timing import preemption

if TYPE_CHECKING:
    from collections.abc import Callable

    from optest.timing.samples import Samples

# A shorter call fits into what is left of most time slices (some 3 ms on Linux).
_FITS_ANYWHERE_US = 1_000.0
# Once brings the interpreter's code back; a few times, what the processor has learnt of it as well.
_WAKES = 4


@dataclass
class Preparation:
    """Bring the caches into their state, and where others want the processor, let them have it now.

    Attributes:
        flush: leaves the caches as the policy wants them; None where they stay as they are.
        wake: a no-op that brings the interpreter back, which a flush evicts, and others too.
        crowded: whether to give way before each call, so that it begins on a fresh time slice.
    """

    flush: Callable[[], object] | None
    wake: Callable[[], object] | None
    crowded: bool = False

    def __call__(self) -> None:
        """Prepare one call."""
        if self.flush is not None:
            self.flush()
        elif not self.crowded:
            return
        if self.crowded:
            preemption.give_way()
        if self.wake is not None:
            for _ in range(_WAKES):
                self.wake()

    def learn(self, samples: Samples) -> None:
        """From the first preempted call on give way, unless that would cost more than it saves.

        A flush spends most of a time slice. Without one, a short call is rarely hit, and giving way
        would only leave its data to be evicted.
        """
        if any(samples.preempted):
            self.crowded = self.flush is not None or min(samples.us) > _FITS_ANYWHERE_US
