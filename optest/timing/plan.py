"""How a measurement is to be made: one frozen record, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optest import settings
from optest.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from optest.timing.clock import Clock

CACHE_STATES = ("cold", "warm")
CLOCKS = ("wall", "event", "graph", "profiler")


@dataclass(frozen=True)
class Plan:
    """What to do in one measurement; None leaves the choice to the environment or the device.

    Attributes:
        num_iters: timed calls, exactly; None samples until the median is known to 1 % or
            ``budget_s`` is spent.
        num_warmup: untimed calls before.
        budget_s: seconds that sampling may take; None is ``OPTEST_BUDGET_S``.
        cache: ``cold`` or ``warm``; None is ``OPTEST_CACHE``.
        clock: a name, or one of your own; None is ``wall`` on a CPU, ``event`` on a GPU.
        num_rotate_args: sets of arguments to take turns with, the caller's own included; 0 is one
            set, except for graphs, where only rotation makes a call cold.
        need_trace: also write a Chrome trace.
        trace_dir: folder for it; None is ``optest_traces`` in the current folder.
        controls: also time a few calls on changed inputs, to refuse kernels that remember answers.

    Raises:
        UsageError: a value that no measurement can be made with.
    """

    num_iters: int | None = None
    num_warmup: int = 2
    budget_s: float | None = None
    cache: str | None = None
    clock: str | Clock | None = None
    num_rotate_args: int = 0
    need_trace: bool = False
    trace_dir: Path | None = None
    controls: bool = True

    def __post_init__(self) -> None:
        if self.num_iters is not None:
            _whole(
                "num_iters", self.num_iters, 1, "timed calls; None lets the stopping rule decide"
            )
        _whole("num_warmup", self.num_warmup, 0, "untimed calls before")
        _whole("num_rotate_args", self.num_rotate_args, 0, "argument sets, 0 for one")
        if self.budget_s is not None and not 0.0 < self.budget_s < math.inf:
            raise UsageError(f"budget_s={self.budget_s!r}: expected a positive number of seconds")
        if self.cache not in (None, *CACHE_STATES):
            raise UsageError(f"cache={self.cache!r}: expected one of {', '.join(CACHE_STATES)}")
        if isinstance(self.clock, str) and self.clock not in CLOCKS:
            raise UsageError(f"clock={self.clock!r}: expected one of {', '.join(CLOCKS)}")

    @property
    def seconds(self) -> float:
        """The budget in force."""
        return settings.get_float("OPTEST_BUDGET_S") if self.budget_s is None else self.budget_s

    @property
    def cache_state(self) -> str:
        """The cache state in force, ``cold`` or ``warm``."""
        return settings.get_str("OPTEST_CACHE") if self.cache is None else self.cache


def _whole(name: str, value: object, least: int, meaning: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        message = f"{name}={value!r}: expected a whole number of at least {least} ({meaning})"
        raise UsageError(message)
