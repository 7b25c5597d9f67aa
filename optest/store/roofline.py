"""How much of what a machine can do a candidate reached: the roofline model.

A call that does F operations on B bytes takes at least ``max(F / peak, B / bandwidth)`` seconds, so
its rate is at most ``min(peak, F / B * bandwidth)`` (Williams, Waterman and Patterson, Roofline: an
insightful visual performance model for multicore architectures, CACM 52(4), 2009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from optest.store.records import Peaks, is_timing

# What ``optest peaks`` writes and shares of the limit are read from: a Ceiling's name, its kinds.
MEMORY = "memory"
BANDWIDTHS = ("read", "copy")
_TERA = 1e12
# What torch and the tables of op tests call the dtypes of Ceiling.name.
_SHORT = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "i8": "int8",
}


def attainable(peak_flops: float, intensity: float, bandwidth: float) -> float:
    """Operations a second that a roofline allows.

    Args:
        peak_flops: operations a second that the arithmetic can do.
        intensity: operations for each byte moved.
        bandwidth: bytes a second that the memory can move.
    """
    return min(peak_flops, intensity * bandwidth)


def share_of_limit(
    quantities: Mapping[str, Any], peaks: Peaks, dtype: str = "", level: str = MEMORY
) -> float:
    """Share of what the machine allows that a candidate reached; 1.0 is all of it.

    Args:
        quantities: a candidate's columns by quantity, as ``columns.by_candidate`` gives them.
            ``TFLOPS`` and ``TB/s`` are read; ``us`` only for whether the caches were cold.
        peaks: the ceilings of the machine that it ran on.
        dtype: of the arithmetic: ``bf16``, ``torch.float16``; empty where the row does not say.
        level: the memory level whose bandwidth limits it.

    Returns:
        ``flops / min(peak, intensity * bandwidth)`` where both quantities and both ceilings are
        known; of operations or bytes alone, their rate over its ceiling. NaN where nothing can be
        said: no quantity, no ceiling, or a timing with warm caches, which memory did not limit.
        A little above 1.0 is noise of either measurement; far above, a count of operations or
        bytes that is not what was done.
    """
    if level == MEMORY and _warm(quantities.get("us")):
        return math.nan
    flops = _rate(quantities.get("TFLOPS"))
    moved = _rate(quantities.get("TB/s"))
    matrix = peaks.best(("matrix",), short_dtype(dtype))
    bandwidth = peaks.best(BANDWIDTHS, level)
    if flops and moved and matrix and bandwidth:
        return flops / attainable(matrix.value, flops / moved, bandwidth.value)
    if flops and moved:  # half a roof would call a half-known limit the whole one
        return math.nan
    if moved and bandwidth:
        return moved / bandwidth.value
    if flops and matrix:
        return flops / matrix.value
    return math.nan


def short_dtype(name: str) -> str:
    """``torch.bfloat16``, ``bfloat16`` and ``bf16`` are ``bf16``; every 8-bit float is ``fp8``."""
    bare = name.strip().lower().rpartition(".")[2]
    if bare.startswith(("float8", "fp8")):
        return "fp8"
    return _SHORT.get(bare, bare)


def _warm(timing: object) -> bool:
    return isinstance(timing, dict) and is_timing(timing) and timing.get("cache") == "warm"


def _rate(value: object) -> float:
    """Operations or bytes a second of a column in tera; 0.0 where it holds no such number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) * _TERA if 0.0 < value < math.inf else 0.0
