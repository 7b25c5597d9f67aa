"""The clocks as they were before any task was imported: a task that replaces one is refused.

The plugin imports this module when pytest starts, so what stands here is what Python came with.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from optest import units
from optest.errors import RefusedError

if TYPE_CHECKING:
    from types import ModuleType

_NAMES = "perf_counter perf_counter_ns monotonic monotonic_ns time time_ns process_time".split()
_ORIGINALS = tuple((name, getattr(time, name)) for name in _NAMES)

# The names by which the harness reaches them.
_REACHED = (
    ("optest.timing.wall", "time", time),
    ("optest.timing.sampling", "time", time),
    ("optest.timing.wall", "NS_PER_US", units.NS_PER_US),
    ("optest.testing.measuring", "US_PER_MS", units.US_PER_MS),
)

# What a reading on a device goes through, and the harness's own way to a number.
_FUNCTIONS = (
    ("torch.cuda", "synchronize"),
    ("torch.cuda", "Event.record"),
    ("torch.cuda", "Event.elapsed_time"),
    ("torch.cuda", "Event.synchronize"),
    ("optest.timing.wall", "WallClock.time"),
    ("optest.timing.wall", "WallClock._one"),
    ("optest.timing.event", "EventClock.time"),
    ("optest.timing.measure", "measure"),
    ("optest.timing.preemption", "switches"),
    ("optest.timing.controls", "Controls.run"),
    ("optest.testing.measuring", "measure_runtime"),
    ("optest.testing.measuring", "measure_runtime_torch"),
    ("optest.testing.subject", "Subject.measure"),
)


def check() -> None:
    """Look at Python's clocks; quick enough to be done before every timed call.

    Raises:
        RefusedError: one is not what Python came with; the message names it and what replaced it.
    """
    for name, original in _ORIGINALS:
        now = getattr(time, name, None)
        if now is not original:
            raise RefusedError(f"time.{name} was replaced by {_place(now)}: no time can be taken")
    for module_name, name, held in _REACHED:
        module = sys.modules.get(module_name)
        if module is not None and getattr(module, name, None) is not held:
            raise RefusedError(f"{module_name}.{name} was replaced: no time can be taken")


def check_all() -> None:
    """Look at the device's clocks and at the harness's own functions as well.

    Raises:
        RefusedError: one of them comes from another file than its own.
    """
    check()
    for module_name, path in _FUNCTIONS:
        module = sys.modules.get(module_name)
        if module is None:
            continue
        found: object = module
        for part in path.split("."):
            found = getattr(found, part, None)
        if not _is_own(found, module):
            raise RefusedError(
                f"{module_name}.{path} was replaced by {_place(found)}: no time can be taken"
            )


def _is_own(found: object, module: ModuleType) -> bool:
    """Whether a function comes from the folder of its module; C functions come from no file."""
    code = getattr(found, "__code__", None)
    if code is None:
        return type(found).__module__ == "builtins" and found is not None
    home = Path(module.__file__ or "").parent
    return Path(code.co_filename).is_relative_to(home)


def _place(found: object) -> str:
    code = getattr(found, "__code__", None)
    name = getattr(found, "__qualname__", type(found).__qualname__)
    if code is None:
        return f"{getattr(found, '__module__', None) or type(found).__module__}.{name}"
    return f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})"
