"""The state of the caches before a timed call, and how it is brought about."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from optest import arch, native
from optest.tensors import has_memory, tensors_in
from optest.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optest.timing.clock import Before

_UNKNOWN_CACHE = 64 << 20
# A cache that does not replace its lines in the order of their use keeps many of them through a
# walk of its own size: on Zen 4 (32 MiB, 16 ways) up to four in five of 2 MiB, none through two.
_SIZES_A_WALK = 2
_LEAST_DEVICE_SWEEP = 256 << 20  # holds the memory-side caches that no API reports
_HOLD_CYCLES = 200_000  # about 0.1 ms in which the host can run ahead of the device


@dataclass(frozen=True)
class Policy:
    """``cold`` or ``warm``, and how that comes about.

    Attributes:
        state: ``cold`` or ``warm``.
        words: what was done, for the Timing.
        before: what to do before each timed call.
        after: what to do with the result of each, so that the next call finds its memory cold.
        thorough: the policy that needs to know no tensor, where this one does; None where it is it.
    """

    state: str
    words: str
    before: Before = None
    after: Callable[[object], object] | None = None
    thorough: Policy | None = None


def policy(state: str, device: str, reachable: Sequence[torch.Tensor] = ()) -> Policy:
    """How to reach ``state`` (``cold`` or ``warm``) on a kind of device (``cpu``, ``cuda``).

    ``reachable`` are the tensors that a call can find its data in, as far as they are known.
    """
    if device == "cpu" and state == "cold":
        return _cold_cpu(reachable)
    if device == "cpu":
        return Policy("warm", "calls follow one another")
    if state == "cold":
        return _cold_device()
    words = "calls follow one another"
    hold = getattr(torch.cuda, "_sleep", None)
    return Policy("warm", words, None if hold is None else functools.partial(hold, _HOLD_CYCLES))


def _cold_cpu(reachable: Sequence[torch.Tensor]) -> Policy:
    """Drop the lines of the known tensors, or walk through more than a whole last-level cache.

    Dropping takes microseconds where a walk takes tens of milliseconds, and leaves the interpreter
    alone. It pays where the tensors are known and are not as large as the cache themselves.
    """
    walk = _walk()
    nbytes = sum(tensor.nbytes for tensor in reachable)
    evict = _evict()
    if evict is None or not 0 < nbytes < _cache_bytes():
        return walk

    def before() -> None:
        for tensor in reachable:
            evict(tensor)

    def after(result: object) -> None:
        for tensor in [result] if isinstance(result, torch.Tensor) else tensors_in(result):
            if tensor.device.type == "cpu" and has_memory(tensor):
                evict(tensor)

    words = (
        f"dropped {len(reachable)} tensors ({format_bytes(nbytes)}) and each result from the "
        f"caches before each call; {walk.words} before the last"
    )
    return Policy("cold", words, before, after, walk)


def _walk() -> Policy:
    """Walk through memory of twice the last-level cache, so that it holds nothing else."""
    flush, how = _flush()
    buffer = _buffer(_SIZES_A_WALK * _cache_bytes(), "cpu")
    words = f"{how} {format_bytes(buffer.nbytes)} before each call"
    return Policy("cold", words, functools.partial(flush, buffer))


def _cold_device() -> Policy:
    l2 = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0)
    buffer = _buffer(max(2 * l2, _LEAST_DEVICE_SWEEP), "cuda")
    words = f"wrote {format_bytes(buffer.nbytes)} on the device before each call"
    return Policy("cold", words, buffer.zero_)


def _cache_bytes() -> int:
    return arch.host().last_level_cache_bytes or _UNKNOWN_CACHE


def _evict() -> Callable[[torch.Tensor], object] | None:
    """The operator of csrc that drops a tensor's lines; None where it cannot be had."""
    harness = _harness()
    packet: Callable[[torch.Tensor], object] | None = getattr(harness, "evict_lines", None)
    return packet


def _flush() -> tuple[Callable[[torch.Tensor], object], str]:
    harness = _harness()
    if harness is not None:
        return harness.flush, "walked through"
    # Not zero_ or fill_: large fills bypass the cache and leave what was in it.
    return lambda buffer: buffer.add_(1), "added 1 to"


def _harness() -> Any:  # noqa: ANN401 - torch types its namespaces no better
    return native.csrc_or_none("harness", "caches are flushed with torch operations")


@functools.cache
def _buffer(nbytes: int, device: str) -> torch.Tensor:
    return torch.ones(-(-nbytes // 8), dtype=torch.int64, device=device)
