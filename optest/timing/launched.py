"""Which kernels a call launches, where the clock does not see them: one more call, recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optest.timing import phases, profiler

if TYPE_CHECKING:
    from collections.abc import Callable

    from optest.timing.clock import Target

    Record = Callable[[Callable[[], Any]], tuple[list[profiler.DeviceEvent], Any]]


def kernels_of(target: Target, record: Record = profiler.record) -> tuple[tuple[str, ...], str]:
    """Names of what one call of ``target`` launches, and why there are none where there are none.

    Args:
        target: is called once, on its first set of arguments.
        record: runs a function under a profiler of the device.

    Raises:
        Exception: whatever the function raises.
    """
    if phases.recording():
        return (), "the kernels stand in the trace that is being recorded"
    args, kwargs = target.sets[0]
    raised: list[BaseException] = []

    def call() -> None:
        try:
            target.func(*args, **kwargs)
        except BaseException as error:
            raised.append(error)
            raise

    try:
        events, _ = record(call)
    except Exception as error:
        if raised:
            raise
        return (), f"the kernels could not be recorded: {type(error).__name__}: {error}"
    found = profiler.names(events)
    return found, "" if found else "no kernel was recorded in a call"
