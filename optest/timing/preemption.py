"""Whether the scheduler took the processor away from the calling thread."""

from __future__ import annotations

import os

try:
    import resource
except ImportError:  # no POSIX system: nothing is ever seen as preempted
    resource = None  # type: ignore[assignment]

# Worker threads are left out on purpose: those of an OpenMP pool spin for milliseconds after their
# work is done, and losing the processor then costs the call nothing.
_WHO = getattr(resource, "RUSAGE_THREAD", getattr(resource, "RUSAGE_SELF", 0))


def switches() -> int:
    """Involuntary context switches of this thread so far."""
    return 0 if resource is None else resource.getrusage(_WHO).ru_nivcsw


def give_way() -> None:
    """Let others run now, so that what follows begins on a fresh time slice."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()
