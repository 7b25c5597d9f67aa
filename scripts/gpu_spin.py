"""Kernels of a known length: one program that waits until the card's own clock has gone on.

Those clocks do not change with the card's frequency. ``globaltimer`` counts nanoseconds (PTX ISA,
special registers); ``s_memrealtime`` counts at 100 MHz on CDNA 3 (its ISA reference guide).
"""

from __future__ import annotations

import triton
from triton.language.extra.cuda import globaltimer
from triton.language.extra.hip import memrealtime

NS_A_TICK = {"cuda": 1, "hip": 10}


@triton.jit  # type: ignore[untyped-decorator]
def spin_cuda(ticks: int) -> None:
    """Wait for ``ticks`` nanoseconds."""
    start = globaltimer()
    while globaltimer() - start < ticks:
        pass


@triton.jit  # type: ignore[untyped-decorator]
def spin_hip(ticks: int) -> None:
    """Wait for ``ticks`` of 10 ns."""
    start = memrealtime()
    while memrealtime() - start < ticks:
        pass
