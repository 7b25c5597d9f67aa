"""Where a case's tensors are made: the GPU if there is one, without a script having to say so."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from optest import arch
from optest.log import once

if TYPE_CHECKING:
    from collections.abc import Iterator

_CPU = torch.device("cpu")


@functools.cache
def target() -> str:
    """Device type that this process's cases run on: ``cuda`` (also ROCm's name) or ``cpu``."""
    return "cpu" if arch.get_gfx_runtime() == "cpu" else "cuda"


@contextmanager
def factories_allocate_there() -> Iterator[None]:
    """Inside, ``torch.empty`` and its kin allocate on the target.

    On the CPU nothing is installed: a function mode costs 1.2 µs on every torch call and would be
    timed with the kernel. A script written for a GPU that set one as the default device is put
    back on the CPU where there is none.
    """
    default = _default()
    if default is None:
        once("the script's default device is not on this machine; using the CPU")
        torch.set_default_device(None)
        default = _CPU
    if target() == "cpu" or default.type != "cpu":
        yield
        return
    with torch.device(target()):
        yield


def _default() -> torch.device | None:
    """The default device; None where it names one that is not here (torch finds out when asked)."""
    try:
        # A CPU default is the usual one, and asking for it takes 7 us.
        if getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None) is None:  # noqa: SLF001
            return _CPU
        return torch.get_default_device()
    except (AssertionError, RuntimeError):
        return None


def synchronize() -> None:
    """Wait until the target has finished what it was given."""
    if target() == "cuda":
        torch.cuda.synchronize()
