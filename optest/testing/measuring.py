"""``measure_runtime`` and ``measure_runtime_torch``: upstream's signatures on the house's clock."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import torch

from optest.errors import UsageError
from optest.log import logger, once
from optest.testing import clocks, replicas
from optest.testing.effort import Effort
from optest.testing.profiler import LABEL, detect_profiler, profiler_session
from optest.testing.subject import Subject
from optest.timing.clock import Target
from optest.timing.event import cuda_event_clock
from optest.timing.wall import WallClock
from optest.units import US_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from optest.timing import Timing
    from optest.timing.clock import Arguments, Clock

    _Function: TypeAlias = Callable[..., Any]

REPLICATED = 128 << 20
_DEVICE_WARMUP_S = 0.1  # until a device has raised its clocks
_PROFILED_CALLS = 10
_SHORTEST_MS = 1e-6  # a single net sample of a kernel as short as a no-op may come out below zero


class Runtimes(list[float]):
    """Milliseconds of each trial, net; ``timings`` holds the whole Timing of each argument set."""

    def __init__(self, timings: Sequence[Timing] = (), profiled_ms: Sequence[float] = ()) -> None:
        self.timings = tuple(timings)
        samples = (us for timing in self.timings for us in timing.samples_us)
        super().__init__([*profiled_ms, *(max(us / US_PER_MS, _SHORTEST_MS) for us in samples)])


def measure_runtime(  # noqa: PLR0913, PLR0917 - upstream's signature
    target: _Function,
    sync_fn: Callable[[], object] | None,
    args: object = None,
    kwargs: object = None,
    warmup_min_time: float | None = None,
    warmup_min_iters: int | None = None,
    inner_loop_min_time: float | None = None,
    perf_trials_min_iters: int | None = None,
    perf_trials_min_time: float | None = None,
    use_itt: bool = False,
    reduce_iterations_for_external_profiler: bool = True,
    auto_replicate_inputs_size: int = REPLICATED,
    info_str: str = "",
    output: list[float] | None = None,
    profiler_label: str | None = None,
) -> Runtimes:
    """Time a kernel; what ``sync_fn`` waits for is inside the time.

    Each trial is one call, from cold caches, the harness's own share taken out, preempted calls
    left out. Inputs that the kernel writes in place are given back before each call and at the end.
    Least times and counts that are given are kept; without them calls are made until the median is
    known to 1 % or ``OPTEST_BUDGET_S`` is spent.

    Args:
        target: the kernel.
        sync_fn: waits until the kernel's work is done; None where it is done on return.
        args: its positional arguments; with a list of ``kwargs`` a list of as many such sets.
        kwargs: its keyword arguments, or a list of them; every set is measured.
        warmup_min_time: seconds of untimed calls, at least.
        warmup_min_iters: number of untimed calls, at least.
        inner_loop_min_time: noted as not applicable; a trial is one call.
        perf_trials_min_iters: number of trials, at least.
        perf_trials_min_time: seconds that the trials take, at least, all that goes with them
            included; at most 20,000 are made.
        use_itt: noted as not applicable.
        reduce_iterations_for_external_profiler: under a profiler make a few plain calls only: one
            for ncu, ten for others.
        auto_replicate_inputs_size: bytes to which inputs are copied, to be used in turn, where that
            is more than the cache; 0 for none.
        info_str: words for the log.
        output: a list that the runtimes are added to as well.
        profiler_label: stands in ``KERNELFOUNDRY_PROFILE_LABEL`` meanwhile.

    Returns:
        Milliseconds of each trial, a list; its ``timings`` carry the rest.

    Raises:
        RefusedError: the numbers would not be the kernel's: it remembers answers, or a clock was
            replaced.
        UsageError: an argument that cannot be honoured, naming it.
        Exception: whatever the kernel raises.
    """
    if sync_fn is not None and not callable(sync_fn):
        raise UsageError(f"sync_fn={sync_fn!r}: expected a function without arguments, or None")
    _note_unused(inner_loop_min_time, use_itt)
    effort = Effort(
        warmup_min_time,
        warmup_min_iters,
        perf_trials_min_time,
        perf_trials_min_iters,
        auto_replicate_inputs_size,
    )
    run = _Run(target, WallClock(sync_fn), effort)
    sets = replicas.argument_sets(args, kwargs)
    with _labelled(profiler_label):
        return run.of(sets, info_str, output, reduced=reduce_iterations_for_external_profiler)


def measure_runtime_torch(  # noqa: PLR0913, PLR0917 - upstream's signature
    target: _Function,
    device: str | torch.device,
    args: object = None,
    kwargs: object = None,
    warmup_min_time: float | None = None,
    warmup_min_iters: int | None = None,
    inner_loop_min_time: float | None = None,
    perf_trials_min_iters: int | None = None,
    perf_trials_min_time: float | None = None,
    use_itt: bool = False,
    reduce_iterations_for_external_profiler: bool = True,
    auto_replicate_inputs_size: int = REPLICATED,
    info_str: str = "",
    output: list[float] | None = None,
    profiler_label: str | None = None,
) -> Runtimes:
    """Time a kernel of torch on ``device``, where its arguments are moved first.

    The wall clock on a CPU, device events on CUDA and ROCm. All else as ``measure_runtime``.

    Raises:
        RefusedError: the numbers would not be the kernel's.
        UsageError: an argument that cannot be honoured, or a device that is not there.
    """
    where = replicas.device_named(device)
    _note_unused(inner_loop_min_time, use_itt)
    on_gpu = where.type == "cuda"
    effort = Effort(
        _DEVICE_WARMUP_S if on_gpu and warmup_min_time is None else warmup_min_time,
        warmup_min_iters,
        perf_trials_min_time,
        perf_trials_min_iters,
        auto_replicate_inputs_size,
    )
    sets = [
        replicas.on_device(arguments, where) for arguments in replicas.argument_sets(args, kwargs)
    ]
    with _current(where), _labelled(profiler_label):
        run = _Run(target, cuda_event_clock() if on_gpu else WallClock(_device_sync()), effort)
        return run.of(sets, info_str, output, reduced=reduce_iterations_for_external_profiler)


def _note_unused(inner_loop_min_time: float | None, use_itt: bool) -> None:
    if inner_loop_min_time is not None:
        once("inner_loop_min_time: not applicable, each trial is one call from cold caches")
    if use_itt:
        once("use_itt: not applicable, there are no ITT marks here; use profiler_session")


def _device_sync() -> Callable[[], object] | None:
    """A kernel may use a device although its arguments live on the CPU: wait for that as well."""
    return torch.cuda.synchronize if torch.cuda.is_available() else None


def _current(device: torch.device) -> contextlib.AbstractContextManager[object]:
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


@contextlib.contextmanager
def _labelled(label: str | None) -> Iterator[None]:
    if label is None:
        yield
        return
    before = os.environ.get(LABEL)
    os.environ[LABEL] = label
    try:
        yield
    finally:
        if before is None:
            del os.environ[LABEL]
        else:
            os.environ[LABEL] = before


class _Run:
    """One benchmark of one kernel."""

    def __init__(self, target: _Function, clock: Clock, effort: Effort) -> None:
        if not callable(target):
            raise UsageError(f"target={target!r}: expected a function to call")
        self._target, self._clock, self._effort = target, clock, effort

    def of(
        self, sets: Sequence[Arguments], words: str, output: list[float] | None, *, reduced: bool
    ) -> Runtimes:
        clocks.check_all()
        profiler = detect_profiler()
        with profiler_session(profiler):
            if profiler is not None and reduced:
                found = self._profiled(sets, 1 if profiler == "ncu" else _PROFILED_CALLS)
            else:
                found = Runtimes([self._timing(each, len(sets)) for each in sets])
        clocks.check_all()
        _report(found, words)
        if output is not None:
            output.extend(found)
        return found

    def _profiled(self, sets: Sequence[Arguments], calls: int) -> Runtimes:
        """Plain calls: whatever else the harness does would be in the profile too."""
        reading = self._clock.time([Target(self._target, sets)], calls, clocks.check)[0]
        return Runtimes(profiled_ms=[us / US_PER_MS for us in reading.us])

    def _timing(self, arguments: Arguments, parts: int) -> Timing:
        subject = Subject(self._target, arguments, self._clock)
        with subject.given_back():
            subject.warm_up(self._effort)
            return subject.measure(self._effort, parts)


def _report(found: Runtimes, words: str) -> None:
    head = f"{words}: " if words else ""
    for timing in found.timings:
        low, high = (us / US_PER_MS for us in timing.ci_us)
        logger.info(
            "%s%.6g ms, 95 %% within %.6g to %.6g, %d calls, %s, %s clock",
            head, timing / US_PER_MS, low, high, timing.n, timing.cache, timing.clock,
        )  # fmt: skip
        if timing.contended:
            logger.warning("%sothers wanted the processor throughout: the times are too long", head)
        for note in timing.notes:
            logger.info("%s%s", head, note)
    if not found.timings:
        shown = ", ".join(f"{ms:.6g}" for ms in found)
        logger.info("%sunder a profiler, plain calls: %s ms", head, shown)
