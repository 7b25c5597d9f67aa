"""What a clock is: it makes calls, says how long each took, and knows nothing of the loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Target:
    """A function with the argument sets it is called on, taken in turn."""

    func: Callable[..., Any]
    sets: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]]

    @classmethod
    def of(cls, func: Callable[..., Any], *args: object, **kwargs: object) -> Target:
        """A target with one set of arguments."""
        return cls(func, ((args, kwargs),))


@dataclass
class Reading:
    """What a clock read in one batch of calls.

    Attributes:
        us: time of each call in microseconds, in the order made.
        preempted: for each of them, whether a thread of this process was preempted meanwhile.
        data: what the last call returned.
    """

    us: list[float] = field(default_factory=list)
    preempted: list[bool] = field(default_factory=list)
    data: Any = None


class Clock(Protocol):
    """Times a batch of calls; its attributes are its own settings and nothing else."""

    @property
    def name(self) -> str:
        """Name that the Timing reports."""

    @property
    def resolution_us(self) -> float:
        """Smallest difference that it can tell, in microseconds."""

    def time(self, target: Target, count: int, before: Callable[[], object] | None) -> Reading:
        """Make ``count`` calls, each after an untimed ``before()``, and time each."""
