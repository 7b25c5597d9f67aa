"""The executor that a sweep asks for."""

from __future__ import annotations

from pathlib import Path

from optest.errors import UsageError
from optest.sweep.executor import Executor
from optest.sweep.request import Request

_NAMES = ("local", "ray")


def check(request: Request) -> None:
    """Raise for an executor that there is none of, and options that are another's.

    Raises:
        UsageError: the message says what there is.
    """
    if request.executor not in (None, *_NAMES):
        raise UsageError(f"--executor {request.executor!r}: expected {' or '.join(_NAMES)}")
    if request.address is not None and request.executor != "ray":
        raise UsageError(f"--address {request.address}: it is for --executor ray")
    if request.jobs is not None and request.executor == "ray":
        raise UsageError(
            f"--jobs {request.jobs}: with --executor ray the resources of the cluster's nodes "
            "decide how much runs at a time"
        )


def made(request: Request, folder: Path) -> Executor:
    """The executor of a settled request.

    Raises:
        UsageError: it cannot be had here; the message says what to do.
    """
    check(request)
    job = request.job(folder)
    if request.executor == "ray":
        try:
            from optest.sweep.ray_executor import RayExecutor
        except ImportError as error:
            raise UsageError(
                f"--executor ray: Ray cannot be imported ({error}): pip install 'optest[ray]'"
            ) from None
        kinds = (request.arch,) if request.arch else ()
        return RayExecutor(job, request.address or "", kinds=kinds)
    from optest.sweep.devices import local_lanes
    from optest.sweep.local import LocalExecutor

    return LocalExecutor(job, local_lanes(request.jobs))
