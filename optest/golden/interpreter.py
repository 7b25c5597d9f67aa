"""Triton's interpreter, for scripts that shall run on a machine without a GPU as they are."""

from __future__ import annotations

import os
import sys

from optest.errors import UsageError


def interpret_without_gpu() -> None:
    """Where no GPU is, let Triton kernels be interpreted: call it before triton is imported.

    Triton reads ``TRITON_INTERPRET`` once for each kernel, when ``triton.jit`` decorates it. A
    script calls this only where it is ``__main__``: the process that compiles its kernels for other
    machines imports it too, and must not interpret.

    Raises:
        UsageError: triton has been imported already.
    """
    from optest import arch

    if os.environ.get("TRITON_INTERPRET") or arch.get_gfx_runtime() != arch.CPU:
        return
    if "triton" in sys.modules:
        raise UsageError("interpret_without_gpu(): call it before anything imports triton")
    os.environ["TRITON_INTERPRET"] = "1"
