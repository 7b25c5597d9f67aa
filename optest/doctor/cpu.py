"""Cores, their clocks, and who shares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from optest.doctor.files import numbers
from optest.doctor.item import Item, unknown

if TYPE_CHECKING:
    from optest.doctor.files import Files

_CPUS = "sys/devices/system/cpu"


def items(files: Files, cores: Collection[int]) -> list[Item]:
    """What there is to say of the cores that this process may use."""
    return [
        _model(files),
        _cores(files, cores),
        _siblings(files, cores),
        _governor(files, cores),
        _turbo(files),
        _throttled(files, cores),
        _virtual(files),
        _nodes(files),
    ]


def _model(files: Files) -> Item:
    info = files.fields("proc/cpuinfo")
    name = info.get("model name") or info.get("CPU part", "")
    return Item("cpu", name) if name else unknown("cpu", "/proc/cpuinfo")


def _cores(files: Files, cores: Collection[int]) -> Item:
    online = numbers(files.text(f"{_CPUS}/online"))
    if not online or len(online) == len(cores):
        return Item("cores", f"{len(cores)}")
    return Item(
        "cores",
        f"{len(cores)} of {len(online)}",
        "note",
        "this process may use some of the cores only: others run on the rest, and share caches",
    )


def _siblings(files: Files, cores: Collection[int]) -> Item:
    """Whether two of the cores are threads of one."""
    topology = {
        core: files.text(f"{_CPUS}/cpu{core}/topology/thread_siblings_list") for core in cores
    }
    if not any(topology.values()):
        return unknown("hyperthreads", f"/{_CPUS}/cpu*/topology")
    physical = len(set(topology.values()))
    shared = [core for core, siblings in topology.items() if len(numbers(siblings)) > 1]
    if not shared:
        return Item("hyperthreads", "none")
    if physical == len(cores):
        return Item(
            "hyperthreads",
            "on, one of each core is used",
            "note",
            "what runs on the other thread of a core slows this one, and is not seen here",
        )
    return Item(
        "hyperthreads",
        f"{len(cores)} threads of {physical} cores",
        "warning",
        "two threads share the units of a core: with all of them a kernel may be slower, and times "
        "depend on who sits where",
        f"OMP_NUM_THREADS={physical} and one thread a core (taskset), or "
        "echo off | sudo tee /sys/devices/system/cpu/smt/control",
    )


def _governor(files: Files, cores: Collection[int]) -> Item:
    found = Counter(
        governor
        for core in cores
        if (governor := files.text(f"{_CPUS}/cpu{core}/cpufreq/scaling_governor"))
    )
    if not found:
        return unknown("governor", "no cpufreq: a virtual machine, or the firmware decides")
    words = ", ".join(f"{name} on {count}" for name, count in found.most_common())
    if set(found) == {"performance"}:
        return Item("governor", words)
    return Item(
        "governor",
        words,
        "warning",
        "the clock follows the load: short kernels are timed while it is still rising",
        "sudo cpupower frequency-set -g performance",
    )


def _turbo(files: Files) -> Item:
    off = files.number(f"{_CPUS}/intel_pstate/no_turbo")
    boost = files.number(f"{_CPUS}/cpufreq/boost")
    if off is None and boost is None:
        return unknown("turbo", f"/{_CPUS}/intel_pstate, /{_CPUS}/cpufreq/boost")
    if off == 1 or boost == 0:
        return Item("turbo", "off")
    mend = f"echo 1 | sudo tee /{_CPUS}/intel_pstate/no_turbo"
    if off is None:
        mend = f"echo 0 | sudo tee /{_CPUS}/cpufreq/boost"
    return Item(
        "turbo",
        "on",
        "note",
        "the clock depends on heat and on how many cores work: two runs may differ by some percent",
        mend,
    )


def _throttled(files: Files, cores: Collection[int]) -> Item:
    counts = [
        files.number(f"{_CPUS}/cpu{core}/thermal_throttle/core_throttle_count") for core in cores
    ]
    known = [count for count in counts if count is not None]
    if not known:
        return unknown("overheated", f"/{_CPUS}/cpu*/thermal_throttle")
    if not any(known):
        return Item("overheated", "never")
    return Item(
        "overheated",
        f"{sum(known)} times since it was started",
        "warning",
        "a core that is too hot is slowed down",
        "better cooling, or turbo off",
    )


def _virtual(files: Files) -> Item:
    flags = files.fields("proc/cpuinfo").get("flags", "").split()
    if "hypervisor" not in flags:
        return Item("virtual machine", "no")
    return Item(
        "virtual machine",
        "yes",
        "note",
        "neighbours on the same host share caches and memory, and cannot be seen from here",
        "compare revisions with optest ab, which takes them in turns",
    )


def _nodes(files: Files) -> Item:
    nodes = numbers(files.text("sys/devices/system/node/online"))
    if not nodes:
        return unknown("memory nodes", "/sys/devices/system/node")
    if len(nodes) == 1:
        return Item("memory nodes", "1")
    return Item(
        "memory nodes",
        str(len(nodes)),
        "note",
        "memory of another node is slower, and who gets which is a matter of chance",
        "numactl --cpunodebind=0 --membind=0",
    )
