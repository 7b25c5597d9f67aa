"""Names of what the harness is doing, for whoever records a trace; nothing where nobody does."""

from __future__ import annotations

import contextlib

import torch

PREFIX = "optest: "


def recording() -> bool:
    """Whether a profiler of torch's is running; two at once cannot."""
    return bool(torch._C._autograd._profiler_enabled())  # noqa: SLF001 - no public way to ask


def phase(name: str) -> contextlib.AbstractContextManager[object]:
    """A range of this name in the trace that is being recorded."""
    if not recording():
        return contextlib.nullcontext()
    return torch.profiler.record_function(PREFIX + name)
