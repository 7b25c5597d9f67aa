"""Clocks for tests: what they read is told to them, so that the answer is known."""

from __future__ import annotations

from optest.timing.clock import Reading

NO_OP_US = 0.5


class ToldClock:
    """Reads what the function returns; a no-op, which returns None, takes half a microsecond."""

    name, resolution_us, reads_host = "told", 1e-3, True

    def __init__(self, preempted=lambda us: False):
        self.preempted = preempted

    def time(self, targets, rounds, before):
        readings = [Reading() for _ in targets]
        for index in range(rounds):
            if before is not None:
                before()
            for target, reading in zip(targets, readings, strict=True):
                args, kwargs = target.sets[index % len(target.sets)]
                reading.data = target.func(*args, **kwargs)
                us = NO_OP_US if reading.data is None else float(reading.data)
                reading.us.append(us)
                reading.preempted.append(self.preempted(us))
                reading.calls += 1
        return readings


class FixedClock:
    """Reads the same whatever runs."""

    name, resolution_us, reads_host = "fixed", 1e-3, True

    def __init__(self, us, no_op_us=None):
        self.us, self.no_op_us = us, us if no_op_us is None else no_op_us

    def time(self, targets, rounds, before):
        told = [*[self.no_op_us] * (len(targets) - 1), self.us]
        return [Reading([us] * rounds, [False] * rounds, None, rounds) for us in told]


class Counted:
    """Counts its calls and returns the next of the given values, over and over."""

    def __init__(self, *values):
        self.values, self.calls = values, 0

    def __call__(self, *args, **kwargs):
        value = self.values[self.calls % len(self.values)]
        self.calls += 1
        return value
