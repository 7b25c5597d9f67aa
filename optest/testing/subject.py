"""A kernel with the arguments it is timed on: warmed up, measured, everything given back."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optest.errors import RefusedError
from optest.guards.outputs import is_blank
from optest.log import logger
from optest.tensors import Snapshot, tensors_in
from optest.testing import clocks, replicas
from optest.testing.answers import FirstAnswer
from optest.timing import Plan, measure
from optest.timing.clock import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from optest.testing.effort import Effort
    from optest.timing import Timing
    from optest.timing.clock import Arguments, Before, Clock, Reading

_WARMUP_CALLS = 2
_LOOKS = 3
_MOST_CALLS = 20_000  # of a kernel of a microsecond, seconds hold more than anyone reads
_TRIES_WHERE_CONTENDED = 2
_PAUSE_S = 0.1


class Subject:
    """A kernel with one set of arguments, and which of them it is known to write."""

    def __init__(self, target: Callable[..., Any], arguments: Arguments, clock: Clock) -> None:
        self._target, self._arguments = target, arguments
        self._snapshot = Snapshot(tensors_in(target, arguments))
        self._written: list[torch.Tensor] = []
        self._first = FirstAnswer(None, ())
        self._clock = _Watched(clock, self._restore)

    @contextlib.contextmanager
    def given_back(self) -> Iterator[None]:
        """Whatever happens, the arguments end as they began."""
        try:
            yield
        finally:
            with contextlib.suppress(RuntimeError):  # a device that has failed cannot be written
                self._snapshot.restore()

    def warm_up(self, effort: Effort) -> None:
        """Untimed calls; what the kernel writes is known after the first."""
        least = _WARMUP_CALLS if effort.warmup_min_iters is None else effort.warmup_min_iters
        began, calls = time.monotonic(), 0
        while calls < max(1, least) or time.monotonic() - began < (effort.warmup_min_time or 0.0):
            reading = self._clock.time([Target(self._target, [self._arguments])], 1, None)[0]
            calls += 1
            if calls == 1:
                self._look()
                self._first = FirstAnswer(reading.data, self._written)
            del reading
        self._look()
        self._snapshot.restore()
        _warn_where_blank([t for t in self._snapshot.tensors if not self._writes(t)])

    def measure(self, effort: Effort, parts: int) -> Timing:
        """The Timing; made anew where the kernel turned out to write more than was known.

        What is known to be written is given back before each call. A kernel that spoils its inputs
        only from the n-th call on would else be timed on what it left there.
        """
        for _ in range(_LOOKS):
            timing = self._sampled(effort, parts)
            if not self._look():
                self._first.require_still(self._call)
                return timing
            self._snapshot.restore()
        raise RefusedError("the kernel writes other inputs each time it is measured")

    def _sampled(self, effort: Effort, parts: int) -> Timing:
        sets = 1
        if not self._written:
            sets = replicas.sets_to_rotate(self._arguments, effort.auto_replicate_inputs_size)
        plan = Plan(
            budget_s=effort.budget_s / parts,
            num_warmup=0,
            clock=self._clock,
            num_rotate_args=sets if sets > 1 else 0,
        )
        began = time.monotonic()
        timing = self._by(plan)
        for _ in range(_TRIES_WHERE_CONTENDED):
            if not timing.contended:
                break
            time.sleep(_PAUSE_S)  # others have what they wanted; a crowd often passes
            timing = self._by(plan)
        while timing.n < _MOST_CALLS:
            more = effort.missing(timing.n * parts, (time.monotonic() - began) * parts)
            if not more:
                break
            count = min(timing.n + -(-more // parts), _MOST_CALLS)
            timing = self._by(replace(plan, num_iters=count))
        return timing

    def _by(self, plan: Plan) -> Timing:
        args, kwargs = self._arguments
        self._snapshot.restore()
        return measure(self._target, args, kwargs, plan=plan, snapshot=self._snapshot)[1]

    def _call(self) -> object:
        """One call on the arguments as given, over when this returns."""
        self._snapshot.restore()
        return self._clock.time([Target(self._target, [self._arguments])], 1, None)[0].data

    def _look(self) -> bool:
        """Whether there are tensors that the kernel wrote and was not known to write."""
        late = [tensor for tensor in self._snapshot.changed() if not self._writes(tensor)]
        self._written += late
        return bool(late)

    def _writes(self, tensor: torch.Tensor) -> bool:
        return any(tensor is known for known in self._written)

    def _restore(self) -> None:
        if self._written:
            self._snapshot.restore(self._written)


class _Watched:
    """A clock before each call of which Python's clocks are looked at and inputs are given back."""

    def __init__(self, clock: Clock, restore: Callable[[], None]) -> None:
        self._clock, self._restore = clock, restore
        self.name, self.resolution_us = clock.name, clock.resolution_us
        self.reads_host = clock.reads_host

    def time(self, targets: Sequence[Target], rounds: int, before: Before) -> list[Reading]:
        """As the clock's own."""

        def prepare() -> None:
            clocks.check()
            self._restore()
            if before is not None:
                before()

        readings = self._clock.time(targets, rounds, prepare)
        clocks.check()
        return readings


def _warn_where_blank(inputs: Sequence[torch.Tensor]) -> None:
    floats = [t for t in inputs if t.is_floating_point() and t.numel() > 1]
    if floats and all(is_blank(tensor) for tensor in floats):
        logger.warning(
            "every float input holds one value throughout: kernels run faster on such data than on "
            "real data, and one that remembers its answers cannot be told"
        )
