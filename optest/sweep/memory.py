"""In a worker: the most memory that a case held."""

from __future__ import annotations

import sys

from optest.sweep import processes


def begin() -> None:
    """A case starts: peaks begin anew."""
    processes.reset_peak()
    if _device_in_use():
        import torch

        torch.cuda.reset_peak_memory_stats()


def peaks() -> dict[str, int | None]:
    """``peak_bytes`` of this process and ``device_peak_bytes`` of its tensors since ``begin``."""
    device = None
    if _device_in_use():
        import torch

        device = int(torch.cuda.max_memory_reserved())
    return {"peak_bytes": processes.peak_bytes(), "device_peak_bytes": device}


def _device_in_use() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())
