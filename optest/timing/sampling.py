"""The sampling loop: batches of calls until the rule is satisfied, a no-op taking turns."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optest.timing.clock import Target
from optest.timing.prepare import Preparation
from optest.timing.samples import Samples
from optest.timing.stopping import Progress

if TYPE_CHECKING:
    from optest.timing.cache import Policy
    from optest.timing.clock import Before, Clock
    from optest.timing.inputs import Inputs
    from optest.timing.overhead import NoOp
    from optest.timing.stopping import Stopping

# Between restores of tensors written in place: few enough that x.mul_(2) stays among the numbers.
_CALLS_BETWEEN_RESTORES = 8
# After a kernel this short, the interpreter is as warm as after a no-op: fewer turns are enough.
_SHORT_US = 50.0
_STRIDE_WHEN_SHORT = 4
# Between looks at whether others want the processor.
_CALLS_A_BATCH = 16


@dataclass
class Sampler:
    """Makes the timed calls of one measurement."""

    clock: Clock
    kernel: Target
    no_op: NoOp | None
    policy: Policy
    inputs: Inputs
    samples: Samples = field(default_factory=Samples)
    data: Any = None
    before: Preparation = field(init=False)

    def __post_init__(self) -> None:
        self.before = self._preparation(self.policy)

    def begin_again(self, policy: Policy) -> None:
        """Forget the samples, but not how many calls they took, and go on with another policy."""
        self.policy = policy
        self.samples = Samples(calls=self.samples.calls)
        self.before = self._preparation(policy)

    def _preparation(self, policy: Policy) -> Preparation:
        return Preparation(policy.before, None if self.no_op is None else self.no_op.wake)

    def run(self, rule: Stopping) -> None:
        """Every timed call but the last."""
        began = time.monotonic()
        while True:
            got = self.samples
            elapsed = time.monotonic() - began
            count = rule.more(Progress(len(got.us), got.kept(), got.overhead_us, elapsed))
            if count < 1:
                return
            self._calls(count)

    def last(self) -> None:
        """The last timed call, on inputs as given: its result is the one to check."""
        prepare = self._preparation(self.policy.thorough or self.policy)
        prepare.crowded = self.before.crowded

        def before() -> None:
            self.inputs.restore()
            prepare()

        self._time(self._turn(Target(self.kernel.func, self.kernel.sets[:1])), 1, before)

    def latest_us(self) -> float:
        """Net time of the latest call."""
        overhead = self.samples.overhead_us
        return self.samples.us[-1] - (overhead[-1] if overhead else 0.0)

    def _calls(self, count: int) -> None:
        """``count`` calls in batches, a no-op taking its turn with all or with some of each."""
        while count > 0:
            batch = min(count, _CALLS_A_BATCH)
            if not self.inputs.compared:
                batch = 1  # what the function writes is known after its first call
            elif self.inputs.written:
                batch = min(batch, _CALLS_BETWEEN_RESTORES)
                self.inputs.restore_written()
            paired = -(-batch // self._stride())
            self._time(self._turn(self._kernel()), paired, self.before)
            if batch > paired:
                self._time([self._kernel()], batch - paired, self.before)
            count -= batch
            if not self.inputs.compared:
                self.inputs.find_written()

    def _stride(self) -> int:
        """Calls for each no-op; after a flush, which both share, it costs nothing to speak of."""
        us = self.samples.us
        warm = self.policy.state == "warm"
        return _STRIDE_WHEN_SHORT if warm and us and min(us) < _SHORT_US else 1

    def _kernel(self) -> Target:
        """The function, its argument sets continued where the last batch left them."""
        sets = self.kernel.sets
        at = len(self.samples.us) % len(sets)
        return Target(self.kernel.func, (*sets[at:], *sets[:at]), self.policy.after)

    def _turn(self, kernel: Target) -> list[Target]:
        return [kernel] if self.no_op is None else [self.no_op.target, kernel]

    def _time(self, targets: list[Target], rounds: int, before: Before) -> None:
        *no_ops, kernel = self.clock.time(targets, rounds, before)
        self.samples.add(kernel)
        self.before.learn(self.samples)
        self.data = kernel.data
        for reading in no_ops:
            self.samples.add_overhead(reading)
