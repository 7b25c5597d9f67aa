"""Time one call of a function: the loop that every clock shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optest import stats, tensors
from optest.timing.clock import Target
from optest.timing.plan import Plan
from optest.timing.timing import Timing
from optest.timing.wall import WallClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def measure(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    plan: Plan = Plan(),  # noqa: B008 - frozen
    snapshot: tensors.Snapshot | None = None,
) -> tuple[Any, Timing]:
    """Time ``func(*args, **kwargs)``; returns what the last timed call returned, and the Timing."""
    target = Target(func, ((tuple(args), dict(kwargs or {})),))
    kept = snapshot or tensors.Snapshot(tensors.tensors_in(func, args, kwargs))
    for _ in range(plan.num_warmup):
        func(*args, **(kwargs or {}))
    clock = WallClock()
    count = plan.num_iters or 10
    samples = clock.time(target, count - 1, None).us
    kept.restore(kept.changed())
    last = clock.time(target, 1, None)
    samples += last.us
    facts = Timing(
        stats.median(samples),
        samples_us=samples,
        ci_us=stats.median_interval(samples),
        n=count,
        clock=clock.name,
        cache="warm",
        calls=count + plan.num_warmup,
    )
    return last.data, facts
