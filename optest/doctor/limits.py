"""What a control group allows: processor time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from optest.doctor.item import Item
from optest.units import format_bytes

if TYPE_CHECKING:
    from optest.doctor.files import Files

_GROUPS = "sys/fs/cgroup"
_NO_LIMIT = 1 << 60  # version 1 says "none" as a number near 2^63


def items(files: Files, cores: int) -> list[Item]:
    """The limits of this process's control groups; ``cores`` is how many it may use."""
    folders = _folders(files)
    return [_time(files, folders, cores), _throttled(files, folders), _memory(files, folders)]


def _folders(files: Files) -> list[str]:
    """Folders of this process's groups, its own first, then those around it."""
    found: list[str] = []
    for line in files.text("proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for name in controllers.split(","):
            root = f"{_GROUPS}/{name}".rstrip("/")
            found += [f"{root}/{each}".rstrip("/") for each in _upwards(path.strip("/"))]
    return list(dict.fromkeys([*found, _GROUPS]))


def _upwards(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


def _time(files: Files, folders: list[str], cores: int) -> Item:
    quotas = [quota for folder in folders if (quota := _quota(files, folder)) is not None]
    if not quotas:
        return Item("processor time", "no limit")
    least = min(quotas)
    if least >= cores:
        return Item("processor time", f"{least:g} cores' worth")
    return Item(
        "processor time",
        f"{least:g} cores' worth for {cores} cores",
        "bad",
        "threads are stopped for the rest of a period (mostly 100 ms) once its share is used up",
        f"OMP_NUM_THREADS={max(int(least), 1)}, or a container without a limit of processor time",
    )


def _quota(files: Files, folder: str) -> float | None:
    """Cores' worth of time that a group may use; None where it is not limited."""
    quota, _, period = files.text(f"{folder}/cpu.max").partition(" ")
    if not quota:
        quota = files.text(f"{folder}/cpu.cfs_quota_us")
        period = files.text(f"{folder}/cpu.cfs_period_us")
    if not quota.isdecimal() or not period.isdecimal() or not int(period):
        return None
    return int(quota) / int(period)


def _throttled(files: Files, folders: list[str]) -> Item:
    counts = []
    for folder in folders:
        words = files.text(f"{folder}/cpu.stat").split()
        stats = dict(zip(words[::2], words[1::2], strict=False))
        counts.append(stats.get("nr_throttled", "0"))
    most = max((int(count) for count in counts if count.isdecimal()), default=0)
    if not most:
        return Item("stopped by a limit", "never")
    return Item(
        "stopped by a limit",
        f"{most} times",
        "warning",
        "this container has been stopped before because its processor time was used up",
        "fewer threads or jobs, or a higher limit",
    )


def _memory(files: Files, folders: list[str]) -> Item:
    limits = [
        int(text)
        for folder in folders
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := files.text(f"{folder}/{name}")).isdecimal() and int(text) < _NO_LIMIT
    ]
    return Item("memory limit", format_bytes(min(limits)) if limits else "none")
