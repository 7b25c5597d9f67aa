"""The result of a measurement: a number of microseconds that remembers how it was found."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from optest import stats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self, Unpack


class Facts(TypedDict, total=False):
    """What a Timing carries beside its median; ``Timing`` explains each."""

    samples_us: Sequence[float]
    ci_us: Sequence[float]
    n: int
    dropped: int
    contended: bool
    clock: str
    cache: str
    policy: str
    overhead_us: float
    overhead_of: str
    calls: int
    notes: Sequence[str]
    trace: str | None
    kernels: Sequence[str]


class Timing(float):
    """Median time of one call in microseconds; in arithmetic a plain ``float``.

    Times are net: the harness's own share (``overhead_us``) is already taken out of all of them.

    Attributes:
        samples_us: time of each call that was kept, in the order made.
        ci_us: (low, high), the 95 % confidence interval of the median; infinite for few samples.
        n: timed calls, those dropped included.
        dropped: timed calls left out because the thread was preempted meanwhile.
        contended: more than half were preempted, so all were kept and the number is no promise.
        clock: ``wall``, ``event``, ``graph`` or ``profiler``.
        cache: ``cold`` or ``warm``.
        policy: how the caches were brought into that state, in words.
        overhead_us: what one call through the same path costs without the kernel.
        overhead_of: what was timed to know it.
        calls: every call of the function that the measurement made, warm-up and controls included.
        notes: what a reader of the number should know.
        trace: path of the Chrome trace, where one was asked for.
        kernels: names of the kernels, copies and fills that a call launched on a device, each once,
            in the order of their first launch; empty on a CPU.
    """

    __slots__ = tuple(Facts.__annotations__)
    samples_us: tuple[float, ...]
    ci_us: tuple[float, float]
    n: int
    dropped: int
    contended: bool
    clock: str
    cache: str
    policy: str
    overhead_us: float
    overhead_of: str
    calls: int
    notes: tuple[str, ...]
    trace: str | None
    kernels: tuple[str, ...]

    def __new__(cls, median_us: float, **facts: Unpack[Facts]) -> Self:  # noqa: D102
        unknown = facts.keys() - Facts.__annotations__.keys()
        if unknown:
            raise TypeError(f"Timing has no {sorted(unknown)}: expected {list(cls.__slots__)}")
        self = super().__new__(cls, median_us)
        for name, default in _DEFAULTS.items():
            value = facts.get(name, default)
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        return self

    @classmethod
    @functools.cache  # a record, and a sweep in check mode makes one for each candidate
    def nan(cls, reason: str) -> Self:
        """A Timing for what was not measured: NaN, with the reason in ``notes``."""
        return cls(math.nan, notes=(reason,))

    @property
    def median_us(self) -> float:
        """The value itself, as a plain float."""
        return float(self)

    @property
    def mean_us(self) -> float:
        """Arithmetic mean of the kept samples; NaN where there are none."""
        return stats.mean(self.samples_us) if self.samples_us else math.nan

    @property
    def min_us(self) -> float:
        """Shortest kept sample; NaN where there are none."""
        return min(self.samples_us, default=math.nan)

    @property
    def max_us(self) -> float:
        """Longest kept sample; NaN where there are none."""
        return max(self.samples_us, default=math.nan)

    @property
    def dropped_share(self) -> float:
        """Share of the timed calls that were left out, 0 to 1."""
        return self.dropped / self.n if self.n else 0.0

    def quantile_us(self, share: float) -> float:
        """Time below which ``share`` of the kept samples lie; NaN where there are none."""
        return stats.quantile(self.samples_us, share) if self.samples_us else math.nan

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON types; NaN and infinity become None."""
        facts = {name: _to_json(getattr(self, name)) for name in self.__slots__}
        derived = {"mean_us": self.mean_us, "min_us": self.min_us, "max_us": self.max_us}
        return {"median_us": _to_json(float(self)), **_to_json(derived), **facts}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The Timing that ``to_dict`` wrote; keys it does not know are left alone."""
        facts = {name: record[name] for name in cls.__slots__ if name in record}
        if "ci_us" in facts:
            low, high = facts["ci_us"]
            facts["ci_us"] = (
                -math.inf if low is None else low,
                math.inf if high is None else high,
            )
        value = record["median_us"]
        return cls(math.nan if value is None else value, **facts)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Timing is a record: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Timing is a record: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), float(self), {n: getattr(self, n) for n in self.__slots__})


_DEFAULTS: Facts = {
    "samples_us": (),
    "ci_us": (-math.inf, math.inf),
    "n": 0,
    "dropped": 0,
    "contended": False,
    "clock": "",
    "cache": "",
    "policy": "",
    "overhead_us": 0.0,
    "overhead_of": "",
    "calls": 0,
    "notes": (),
    "trace": None,
    "kernels": (),
}


def _rebuild(cls: type[Timing], median_us: float, facts: Facts) -> Timing:
    return cls(median_us, **facts)


def _to_json(value: Any) -> Any:  # noqa: ANN401 - any JSON type
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    return value
