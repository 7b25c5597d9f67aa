"""What a clock is: it makes calls, says how long each took, and knows nothing of the loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
    Before = Callable[[], object] | None


@dataclass(frozen=True)
class Target:
    """A function with the argument sets it is called on, taken in turn from the first.

    ``after`` gets the result of each call, outside the time taken; clocks that batch leave it out.
    """

    func: Callable[..., Any]
    sets: Sequence[Arguments] = (((), {}),)
    after: Callable[[object], object] | None = None


@dataclass
class Reading:
    """What a clock read of one target in one batch.

    Attributes:
        us: time of each call in microseconds, in the order made.
        preempted: for each of them, whether the thread lost its processor meanwhile.
        data: what the last call returned.
        calls: calls made; more than there are readings where a reading takes several.
        kernels: names of what a call launched on a device, where the clock sees them.
    """

    us: list[float] = field(default_factory=list)
    preempted: list[bool] = field(default_factory=list)
    data: Any = None
    calls: int = 0
    kernels: tuple[str, ...] = ()


class Clock(Protocol):
    """Times a batch of calls; its attributes are its own settings and nothing else."""

    @property
    def name(self) -> str:
        """Name that the Timing reports."""

    @property
    def resolution_us(self) -> float:
        """Smallest difference that it can tell, in microseconds."""

    @property
    def reads_host(self) -> bool:
        """Whether its readings hold the cost of the call itself, which a no-op then measures."""

    def time(self, targets: Sequence[Target], rounds: int, before: Before) -> list[Reading]:
        """Each round: an untimed ``before()``, then each target once, in turn."""
