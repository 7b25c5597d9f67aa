"""Time one call of a function: what happens, in which order."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from optest import arch, native, stats
from optest.tensors import Snapshot, tensors_in
from optest.timing import cache, launched, overhead, phases, rotation, trace
from optest.timing.choose import choose, device_of
from optest.timing.clock import Target
from optest.timing.controls import Controls
from optest.timing.inputs import Inputs
from optest.timing.phases import phase
from optest.timing.plan import Plan
from optest.timing.samples import check_constant, net
from optest.timing.sampling import Sampler
from optest.timing.stopping import Stopping
from optest.timing.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optest.timing.clock import Arguments


def measure(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    plan: Plan = Plan(),  # noqa: B008 - frozen
    snapshot: Snapshot | None = None,
) -> tuple[Any, Timing]:
    """Time ``func(*args, **kwargs)``.

    Args:
        func: what to time; an operator of ours is compared with a no-op of the same binding.
        args: its positional arguments.
        kwargs: its keyword arguments.
        plan: how to measure.
        snapshot: what the tensors reachable from ``func``, ``args`` and ``kwargs`` held at first;
            None remembers what they hold now.

    Returns:
        What the last timed call returned, and the Timing. Tensors that ``func`` writes in place
        are given back before that call, so they end as after a single call on what they held.

    Raises:
        ClockError: the clock's readings are none that a call can have.
        RefusedError: the number would not be the kernel's; the message says why.
        Exception: whatever ``func`` raises. The tensors then hold again what they held.
    """
    arguments = tuple(args), dict(kwargs or {})
    inputs = Inputs(snapshot or Snapshot(tensors_in(func, arguments)))
    try:
        return _Measurement(func, arguments, inputs, plan).run()
    except BaseException:
        with contextlib.suppress(Exception):  # a device that has failed cannot be written to
            inputs.restore()
        raise


_FAR = 1.25
# What code costs when it comes from memory: 50 to 100 us for an operator of ours, 200 to 450 us for
# torch's and for what torch.compile has made (guards, wrapper). Some MiB of data cost more.
_COLD_CODE_US = 750.0


class _Measurement:
    def __init__(
        self, func: Callable[..., Any], arguments: Arguments, inputs: Inputs, plan: Plan
    ) -> None:
        self.plan, self.inputs = plan, inputs
        self.own = Target(func, (arguments,))
        self.notes: list[str] = []
        self.calls = 0
        self.written: str | None = None
        self.kernels: tuple[str, ...] = ()
        device = self.device = device_of(inputs.tensors)
        clock, note = choose(plan.clock, device)
        self._note(note)
        policy = cache.policy(plan.cache_state, device, inputs.tensors)
        kernel = self._rotated(clock.name)
        no_op = overhead.no_op(self.own) if clock.reads_host else None
        self.sampler = Sampler(clock, kernel, no_op, policy, inputs)

    def run(self) -> tuple[Any, Timing]:
        with phase("warm-up"):
            self._warm_up()
        native.settle()
        rule = Stopping(self.plan.num_iters, self.plan.seconds)
        with phase("measure"):
            self.sampler.run(rule)
        self._look()
        with phase("control"):
            self._control()
        with phase("last call"):
            self.sampler.last()
        thorough = self.sampler.policy.thorough
        if thorough is not None and self._hides_data():
            self._note("data that the harness cannot find stayed in the cache: measured anew")
            with phase("measure anew"):
                self.sampler.begin_again(thorough)
                self.sampler.run(rule)
                self.sampler.last()
        samples, policy = self.sampler.samples, self.sampler.policy
        check_constant(samples, self.sampler.clock)
        no_op = self.sampler.no_op
        median_us, facts = net(samples, "" if no_op is None else no_op.words)
        facts["clock"] = self.sampler.clock.name
        facts["cache"], facts["policy"] = policy.state, policy.words
        facts["calls"] = samples.calls + self.calls
        facts["notes"] = (*self.notes, *facts["notes"])
        facts["trace"], facts["kernels"] = self.written, samples.kernels or self.kernels
        return self.sampler.data, Timing(median_us, **facts)

    def _hides_data(self) -> bool:
        """Whether a call takes much longer when everything is cold, not only what is known.

        Compared with the slow ones among the samples and asked again twice, since one call may be
        slow for any reason. The allowance is for code that went cold as well, the interpreter's and
        the kernel's own.
        """
        done = self.sampler
        if self.plan.num_iters is not None:  # exactly so many calls, no more
            return False
        known = done.samples.kept()[:-1]
        overhead = done.samples.overhead_us
        slow = stats.quantile(known, 0.75) - (stats.median(overhead) if overhead else 0.0)
        for again in (True, True, False):
            if done.latest_us() <= _FAR * slow + _COLD_CODE_US:
                return False
            if again:
                done.last()
        return True

    def _note(self, note: str) -> None:
        if note:
            self.notes.append(note)

    def _rotated(self, clock: str) -> Target:
        arguments = self.own.sets[0]
        wanted = self.plan.num_rotate_args
        if clock == "graph" and not wanted and self.plan.cache_state == "cold":
            wanted = rotation.sets_to_fill(arguments, arch.get_gfx_runtime().last_level_cache_bytes)
        sets, self.inputs.copies, note = rotation.argument_sets(arguments, wanted)
        self._note(note)
        return Target(self.own.func, sets)

    def _warm_up(self) -> None:
        args, kwargs = self.own.sets[0]
        for _ in range(self.plan.num_warmup):
            self.own.func(*args, **kwargs)
            self.calls += 1
        if self.plan.num_warmup:
            self.inputs.find_written()

    def _control(self) -> None:
        """Between the samples and the last of them, so that this one meets the inputs as given."""
        done = self.sampler
        if not self.plan.controls or not done.samples.us:
            return
        controls = Controls(done.clock, self.own, done.before, self.inputs)
        controls.run(done.data, stats.median(done.samples.kept()))
        self.calls += controls.calls
        self.notes += controls.notes

    def _look(self) -> None:
        """Untimed calls under a profiler: a trace if one is wanted, kernels' names on a GPU."""
        if self.plan.need_trace and phases.recording():
            self._note("no trace of its own: one is being recorded already")
        elif self.plan.need_trace:
            self.inputs.restore_written()
            path, self.kernels = trace.traced(self.own, self.plan.trace_dir)
            self.written = str(path)
            self.calls += trace.CALLS
        elif self.device == "cuda" and not self.sampler.samples.kernels:
            self.inputs.restore_written()
            self.kernels, note = launched.kernels_of(self.own)
            self.calls += 1
            self._note(note)
