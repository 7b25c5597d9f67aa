"""A Chrome trace of a few calls, for eyes rather than for numbers."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, profile

from optest.timing import profiler
from optest.timing.phases import phase

if TYPE_CHECKING:
    from optest.timing.clock import Target

CALLS = 3
FOLDER = Path("optest_traces")
_number = itertools.count()


def activities() -> list[ProfilerActivity]:
    """What there is to record here: the CPU's operators, and a GPU's kernels where there is one."""
    found = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        found.append(ProfilerActivity.CUDA)
    return found


def write_trace(target: Target, folder: Path | None) -> Path:
    """Call the target three times under ``torch.profiler``; returns the file written."""
    return traced(target, folder)[0]


def traced(target: Target, folder: Path | None) -> tuple[Path, tuple[str, ...]]:
    """``write_trace``, which also tells what was launched.

    Returns:
        The file written, and the names of what was launched on a device.
    """
    args, kwargs = target.sets[0]
    with profile(activities=activities()) as prof:
        for _ in range(CALLS):
            with phase("call"):
                target.func(*args, **kwargs)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    name = re.sub(r"\W+", "_", getattr(target.func, "__name__", type(target.func).__name__))
    path = (folder or FOLDER) / f"{name.strip('_')}-{os.getpid()}-{next(_number)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    prof.export_chrome_trace(str(path))
    return path, profiler.names(profiler.device_events(prof))
