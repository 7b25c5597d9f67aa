"""Device kernels as ``torch.profiler`` recorded them: the time on the device, launches left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optest.errors import RefusedError, UsageError
from optest.timing.clock import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from optest.timing.clock import Before, Target

_NOTHING = "no device kernel was recorded in {} calls: nothing ran there, use the wall clock"


@dataclass(frozen=True)
class DeviceEvent:
    """One kernel, copy or fill on a device, in microseconds from any one origin."""

    name: str
    start_us: float
    end_us: float


def busy_us(events: Iterable[DeviceEvent]) -> float:
    """Time in which at least one of the events ran; two at once on two streams count once."""
    busy, reached = 0.0, float("-inf")
    for event in sorted(events, key=lambda each: each.start_us):
        busy += max(0.0, event.end_us - max(event.start_us, reached))
        reached = max(reached, event.end_us)
    return busy


def names(events: Iterable[DeviceEvent]) -> tuple[str, ...]:
    """The events' names, each once, in the order in which they began."""
    ordered = sorted(events, key=lambda each: each.start_us)
    return tuple(dict.fromkeys(event.name for event in ordered))


def per_call(events: Sequence[DeviceEvent], calls: int) -> list[list[DeviceEvent]]:
    """The events of each of ``calls`` calls that ran one after the other.

    Raises:
        RefusedError: they cannot be shared out evenly: nothing was launched, or a launch is
            missing from some calls. No number of launches is ever assumed.
    """
    if not events:
        raise RefusedError(_NOTHING.format(calls))
    for name, count in Counter(event.name for event in events).items():
        if count % calls:
            raise RefusedError(
                f"{name!r} was recorded {count} times in {calls} calls, which is no multiple: some "
                "calls did not launch it, so a mean over all would not be the kernel's time"
            )
    ordered = sorted(events, key=lambda each: each.start_us)
    share = len(ordered) // calls
    groups = [ordered[at : at + share] for at in range(0, len(ordered), share)]
    first = Counter(event.name for event in groups[0])
    for index, group in enumerate(groups):
        if Counter(event.name for event in group) != first:
            raise RefusedError(f"call {index} of {calls} launched other kernels than the first did")
    return groups


@dataclass(frozen=True)
class ProfilerClock:
    """Kernel times of each call, from a recording of the device.

    Attributes:
        record: runs a function under the profiler; returns the device events and what it returned.
        sync: waits until the device is idle.
    """

    record: Callable[[Callable[[], Any]], tuple[list[DeviceEvent], Any]]
    sync: Callable[[], object]
    name: str = "profiler"
    resolution_us: float = 1e-3
    reads_host: bool = False

    def time(self, targets: Sequence[Target], rounds: int, before: Before) -> list[Reading]:
        """Record ``rounds`` calls, the device idle between them."""
        return [self._one(target, rounds, before) for target in targets]

    def _one(self, target: Target, rounds: int, before: Before) -> Reading:
        aside = 0 if before is None else len(self.record(lambda: self._then_sync(before))[0])

        def calls() -> Any:  # noqa: ANN401 - whatever the function returns
            data = None
            for index in range(rounds):
                args, kwargs = target.sets[index % len(target.sets)]
                if before is not None:
                    self._then_sync(before)
                data = target.func(*args, **kwargs)
                self.sync()
            return data

        events, data = self.record(calls)
        groups = [group[aside:] for group in per_call(events, rounds)]
        if not groups[0]:
            raise RefusedError(_NOTHING.format(rounds))
        us = [busy_us(group) for group in groups]
        return Reading(
            us=us,
            preempted=[False] * rounds,
            data=data,
            calls=rounds,
            kernels=names(groups[0]),
        )

    def _then_sync(self, work: Callable[[], object]) -> None:
        work()
        self.sync()


def device_events(prof: Any) -> list[DeviceEvent]:  # noqa: ANN401 - torch.profiler.profile
    """What a finished ``torch.profiler.profile`` recorded on devices."""
    from torch._C._autograd import DeviceType

    return [
        DeviceEvent(event.name, float(event.time_range.start), float(event.time_range.end))
        for event in prof.events()
        if event.device_type not in (DeviceType.CPU, None) and not event.is_user_annotation
    ]


def get_trace_perf(prof: Any, num_iters: int) -> float:  # noqa: ANN401 - torch.profiler.profile
    """Device time of one iteration in microseconds, from a profile of ``num_iters`` of them.

    Raises:
        UsageError: ``num_iters`` is not a positive whole number.
        RefusedError: the profile holds no device kernel, or one that is not in every iteration.
    """
    if isinstance(num_iters, bool) or not isinstance(num_iters, int) or num_iters < 1:
        raise UsageError(f"num_iters={num_iters!r}: expected a whole number of at least 1")
    groups = per_call(device_events(prof), num_iters)
    return sum(busy_us(group) for group in groups) / num_iters


def record(work: Callable[[], Any]) -> tuple[list[DeviceEvent], Any]:
    """What ``work`` makes the current CUDA or ROCm device do, and what it returns."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        data = work()
        torch.cuda.synchronize()
    return device_events(prof), data


def cuda_profiler_clock() -> ProfilerClock:
    """The profiler clock of the current CUDA or ROCm device."""
    import torch

    return ProfilerClock(record, torch.cuda.synchronize)
