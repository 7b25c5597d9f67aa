"""How long one call takes: ``measure(func, args, kwargs, plan=Plan())`` -> (data, Timing)."""

from __future__ import annotations

from optest.timing.measure import measure
from optest.timing.plan import Plan
from optest.timing.timing import Timing

__all__ = ["Plan", "Timing", "measure"]
