"""Whether the scheduler took the processor away from this process while a call ran."""

from __future__ import annotations

try:
    import resource
except ImportError:  # not a POSIX system: nothing is ever seen as preempted
    resource = None  # type: ignore[assignment]


def switches() -> int:
    """Involuntary context switches of this process so far, all threads together."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw if resource is not None else 0
