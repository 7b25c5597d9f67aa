"""Python's clocks, and the names by which the harness reaches them, as they were at first.

Imports no torch: pytest imports this when it starts, before any task's file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from optest import units
from optest.guards.finding import Finding

_MEANS = "what was measured or checked after that says nothing"
_NAMES = "perf_counter perf_counter_ns monotonic monotonic_ns time time_ns process_time".split()
_ORIGINALS = tuple((name, getattr(time, name)) for name in _NAMES)
_REACHED = (
    ("optest.timing.wall", "time", time),
    ("optest.timing.sampling", "time", time),
    ("optest.timing.wall", "NS_PER_US", units.NS_PER_US),
    ("optest.testing.measuring", "US_PER_MS", units.US_PER_MS),
)


def finding() -> Finding | None:
    """Look at Python's clocks; quick enough to be done before every timed call (2 us)."""
    for name, original in _ORIGINALS:
        found = getattr(time, name, None)
        if found is not original:
            return replaced(f"time.{name}", found)
    for module_name, name, held in _REACHED:
        module = sys.modules.get(module_name)
        if module is not None and getattr(module, name, None) is not held:
            return replaced(f"{module_name}.{name}", getattr(module, name, None))
    return None


def replaced(name: str, found: object) -> Finding:
    """``found`` stands where ``name`` should."""
    return Finding("patched names", f"{name} was replaced by {_place(found)}", _MEANS)


def _place(found: object) -> str:
    code = getattr(found, "__code__", None)
    name = getattr(found, "__qualname__", type(found).__qualname__)
    if code is None:
        return f"{getattr(found, '__module__', None) or type(found).__module__}.{name}"
    return f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})"
