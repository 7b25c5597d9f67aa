"""GPUs: which there are, who else uses them, what their clocks do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from optest.doctor.item import Item, unknown

if TYPE_CHECKING:
    from optest.doctor.files import Files

_NODES = {"dev/kfd": "AMD", "dev/nvidiactl": "NVIDIA"}
_SECONDS = 20
_BUSY_PERCENT = 5
_QUERY = ("pci.bus_id", "persistence_mode", "utilization.gpu")


def items(files: Files) -> list[Item]:
    """What there is to say of the GPUs."""
    nodes = [maker for path, maker in _NODES.items() if files.exists(path)]
    device = _seen_by_torch()
    if not device and not nodes:
        return [Item("device", "no GPU: the CPU is measured")]
    found = [_device(device, nodes), _driver(files), _performance(files), _busy(files)]
    found += [others(_kfd_pids(files), os.getpid())] if files.exists("dev/kfd") else []
    if smi := shutil.which("nvidia-smi"):
        apps = _told(smi, "--query-compute-apps=pid")
        found += [others((int(line) for line in apps if line.isdecimal()), os.getpid())]
        found += nvidia(_told(smi, f"--query-gpu={','.join(_QUERY)}"))
    return found


def _seen_by_torch() -> str:
    import torch

    if not torch.cuda.is_available():
        return ""
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return f"{len(names)} x {names[0]}"


def _device(seen: str, nodes: Sequence[str]) -> Item:
    if seen:
        return Item("device", seen)
    return Item(
        "device",
        f"a GPU of {' and '.join(nodes)} that torch does not see",
        "bad",
        "the CPU is measured instead",
        "install a torch that is built for it; look at CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES "
        "and the rights of /dev/kfd or /dev/nvidia*",
    )


def _driver(files: Files) -> Item:
    for name in ("nvidia", "amdgpu"):
        if version := files.text(f"sys/module/{name}/version"):
            return Item("driver", f"{name} {version}")
    return unknown("driver", "/sys/module/nvidia, /sys/module/amdgpu")


def _performance(files: Files) -> Item:
    """AMD: whether the clocks are free to follow the load."""
    paths = files.glob("sys/class/drm/card*/device/power_dpm_force_performance_level")
    levels = [text for path in paths if (text := files.text(path))]
    if not levels:
        return unknown("performance level", "/sys/class/drm/card*/device")
    if "auto" not in levels:
        return Item("performance level", ", ".join(dict.fromkeys(levels)))
    return Item(
        "performance level",
        "auto",
        "note",
        "clocks follow load and heat: the first calls of a run are slower",
        "rocm-smi --setperfdeterminism 1900, or another clock that the card holds",
    )


def _busy(files: Files) -> Item:
    found = {
        path.split("/")[3]: percent
        for path in files.glob("sys/class/drm/card*/device/gpu_busy_percent")
        if (percent := files.number(path)) is not None
    }
    if not found:
        return unknown("device's load", "/sys/class/drm/card*/device/gpu_busy_percent")
    return _load(found)


def _load(percents: dict[str, int]) -> Item:
    words = ", ".join(f"{name} {percent} %" for name, percent in percents.items())
    if max(percents.values()) < _BUSY_PERCENT:
        return Item("device's load", words)
    return Item(
        "device's load",
        words,
        "bad",
        "another program runs kernels on it: they take turns with the timed ones",
        "wait, or choose an idle one with HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES",
    )


def _kfd_pids(files: Files) -> Iterable[int]:
    names = (path.rpartition("/")[2] for path in files.glob("sys/class/kfd/kfd/proc/*"))
    return (int(name) for name in names if name.isdecimal())


def others(pids: Iterable[int], own: int) -> Item:
    """Processes that hold a device open, but for this one."""
    found = sorted({*pids} - {own})
    if not found:
        return Item("processes on the device", "none")
    return Item(
        "processes on the device",
        ", ".join(map(str, found)),
        "warning",
        "they hold memory, and may run kernels at any time",
        "end them, or choose another device",
    )


def _told(smi: str, query: str) -> list[str]:
    """Lines of nvidia-smi's answer; none where it does not answer."""
    command = [smi, query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(  # noqa: S603 - its words are ours
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines()] if done.returncode == 0 else []


def nvidia(lines: Iterable[str]) -> list[Item]:
    """What nvidia-smi says of each device: bus, persistence mode, percent of time in use."""
    rows = [[word.strip() for word in line.split(",")] for line in lines]
    rows = [row for row in rows if len(row) == len(_QUERY)]
    if not rows:
        return [unknown("device's load", "nvidia-smi")]
    percents = {row[0]: int(row[2]) for row in rows if row[2].isdecimal()}
    found = [_load(percents)] if percents else [unknown("device's load", "nvidia-smi")]
    if any(row[1] == "Disabled" for row in rows):
        found.append(
            Item(
                "persistence",
                "off",
                "note",
                "the driver is unloaded between runs, and the first call of each waits for it",
                "sudo nvidia-smi -pm 1",
            )
        )
    return found
