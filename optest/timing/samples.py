"""What the loop has gathered, and what may be made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optest import stats
from optest.errors import ClockError
from optest.timing.stopping import net_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optest.timing.clock import Clock, Reading
    from optest.timing.timing import Facts

_SAME_READINGS = 8
_TICKS = 1_000
_SEPARABLE = 0.05


@dataclass
class Samples:
    """Readings of one measurement, overhead included.

    Attributes:
        us: time of each call.
        preempted: for each of them, whether it was disturbed.
        overhead_us: times of the no-op, disturbed ones left out.
        calls: calls of the function.
        kernels: names of what one of them launched on a device, where the clock told.
    """

    us: list[float] = field(default_factory=list)
    preempted: list[bool] = field(default_factory=list)
    overhead_us: list[float] = field(default_factory=list)
    calls: int = 0
    kernels: tuple[str, ...] = ()

    @property
    def contended(self) -> bool:
        """Whether more than half were preempted."""
        return 2 * sum(self.preempted) > len(self.us)

    @property
    def dropped(self) -> int:
        """How many calls are left out; none where that would be the majority."""
        return 0 if self.contended else sum(self.preempted)

    def kept(self) -> list[float]:
        """The undisturbed calls; all of them where they are the minority."""
        if not self.dropped:
            return list(self.us)
        return [us for us, hit in zip(self.us, self.preempted, strict=True) if not hit]

    def add(self, reading: Reading) -> None:
        """Take over what a clock read of the function.

        Raises:
            ClockError: a reading is zero, negative or no number.
        """
        for us in reading.us:
            if not 0.0 < us < math.inf:
                raise ClockError(f"the clock read {us!r} us for one call: expected more than zero")
        self.us += reading.us
        self.preempted += reading.preempted
        self.calls += reading.calls
        self.kernels = self.kernels or reading.kernels

    def add_overhead(self, reading: Reading) -> None:
        """Take over what a clock read of the no-op.

        Raises:
            ClockError: a reading is negative or no number.
        """
        for us, hit in zip(reading.us, reading.preempted, strict=True):
            if not 0.0 <= us < math.inf:
                raise ClockError(f"the clock read {us!r} us for a no-op: expected zero or more")
            if not hit:
                self.overhead_us.append(us)


def check_constant(samples: Samples, clock: Clock) -> None:
    """Refuse a clock that shows the same whatever runs.

    Raises:
        ClockError: all readings are one value, though the clock could tell a thousandth of it; or
            the function and the no-op read alike to the last digit.
    """
    value = samples.us[0]
    if any(us != value for us in samples.us):
        return
    alike = bool(samples.overhead_us) and all(us == value for us in samples.overhead_us)
    fine = len(samples.us) >= _SAME_READINGS and value >= _TICKS * clock.resolution_us
    if fine or alike:
        raise ClockError(
            f"the {clock.name} clock read {value!r} us for each of {len(samples.us)} calls"
            f"{' and for the no-op' if alike else ''}: it does not follow what is timed"
        )


def net(samples: Samples, overhead_of: str) -> tuple[float, Facts]:
    """The median without the harness's share, and the facts that go with it.

    Where a call takes no longer than the no-op does (within 5 %), there is nothing to tell apart:
    the whole is reported, as a bound from above, and a note says so.
    """
    kept = samples.kept()
    overhead = stats.median(samples.overhead_us) if samples.overhead_us else 0.0
    notes: list[str] = []
    if samples.contended:
        notes.append(
            f"contended: {sum(samples.preempted)} of {len(samples.us)} timed calls were preempted, "
            "all are kept"
        )
    if stats.median(kept) - overhead <= _SEPARABLE * overhead:
        notes.append(f"as short as {overhead_of} ({overhead:.2f} us), which is not taken out")
        overhead = 0.0
    return stats.median(kept) - overhead, {
        "samples_us": [us - overhead for us in kept],
        "ci_us": net_interval(kept, samples.overhead_us if overhead else ()),
        "n": len(samples.us),
        "dropped": samples.dropped,
        "contended": samples.contended,
        "overhead_us": overhead,
        "overhead_of": overhead_of if overhead else "",
        "notes": notes,
    }


def spread_us(values: Sequence[float]) -> str:
    """``12.3 us`` or ``12.3 to 14.1 us``, for messages."""
    low, high = min(values), max(values)
    return f"{low:.1f} us" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f} us"
