"""Which kernels of this package an operator runs on: csrc on the CPU, Triton on a GPU."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

from optest import arch, native
from optest.errors import UsageError

if TYPE_CHECKING:
    import torch

CPP, TRITON = "cpp", "triton"


def own_kernel() -> str | None:
    """Name of the candidate that the wrappers stand for on this machine.

    ``triton`` on a GPU, ``cpp`` on a CPU, None on a CPU without what csrc needs to be built (said
    once in the log).
    """
    if arch.get_gfx_runtime() != arch.CPU:
        return TRITON
    return CPP if native.available() else None


# A wrapper is timed with its kernel: what it asks on every call has to be cheap.
csrc = functools.cache(native.csrc)


def kernels(tensor: torch.Tensor, family: str) -> Any:  # noqa: ANN401 - two of one form
    """The family's kernels for the device of ``tensor``.

    Raises:
        UsageError: it lives where neither runs.
    """
    return csrc(family) if on_cpu(tensor) else _triton(family)


@functools.cache
def _triton(family: str) -> Any:  # noqa: ANN401
    return importlib.import_module(f"optest.ops.triton.{family}")  # loads where a GPU needs it


def on_cpu(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` goes to csrc (True) or to Triton (False).

    Raises:
        UsageError: it lives where neither runs.
    """
    if tensor.is_cpu:
        return True
    if tensor.is_cuda:
        return False
    raise UsageError(
        f"tensor on {tensor.device}: expected cpu, or cuda (which is also ROCm's name). "
        "Move the operands there."
    )
