"""The state of the caches before a timed call, and how it is brought about."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest import arch, log, native
from optest.errors import BuildError
from optest.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from optest.timing.clock import Before

_UNKNOWN_CACHE = 64 << 20
_LEAST_DEVICE_SWEEP = 256 << 20  # holds the memory-side caches that no API reports
_HOLD_CYCLES = 200_000  # about 0.1 ms in which the host can run ahead of the device


@dataclass(frozen=True)
class Policy:
    """``cold`` or ``warm``, how that comes about, and what to do before each timed call."""

    state: str
    words: str
    before: Before = None


def policy(state: str, device: str) -> Policy:
    """How to reach ``state`` (``cold`` or ``warm``) on a kind of device (``cpu``, ``cuda``)."""
    if device == "cpu":
        return _cold_cpu() if state == "cold" else Policy("warm", "calls follow one another")
    if state == "cold":
        return _cold_device()
    words = "calls follow one another"
    hold = getattr(torch.cuda, "_sleep", None)
    return Policy("warm", words, None if hold is None else functools.partial(hold, _HOLD_CYCLES))


def _cold_cpu() -> Policy:
    """Walk through memory as large as the last-level cache, so that it holds nothing else."""
    flush, how = _flush()
    buffer = _buffer(arch.host().last_level_cache_bytes or _UNKNOWN_CACHE, "cpu")
    words = f"{how} {format_bytes(buffer.nbytes)} before each call"
    return Policy("cold", words, functools.partial(flush, buffer))


def _cold_device() -> Policy:
    l2 = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0)
    buffer = _buffer(max(2 * l2, _LEAST_DEVICE_SWEEP), "cuda")
    words = f"wrote {format_bytes(buffer.nbytes)} on the device before each call"
    return Policy("cold", words, buffer.zero_)


def _flush() -> tuple[Callable[[torch.Tensor], object], str]:
    if native.available():
        try:
            return native.csrc("harness").flush, "walked through"
        except BuildError as error:
            log.once(f"caches are flushed with torch operations: {error}", logging.WARNING)
    # Not zero_ or fill_: large fills bypass the cache and leave what was in it.
    return lambda buffer: buffer.add_(1), "added 1 to"


@functools.cache
def _buffer(nbytes: int, device: str) -> torch.Tensor:
    return torch.ones(-(-nbytes // 8), dtype=torch.int64, device=device)
