"""Memory, load, clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.doctor.item import Item, unknown
from optest.units import format_bytes

if TYPE_CHECKING:
    from optest.doctor.files import Files

_GOOD_CLOCKS = ("tsc", "arch_sys_counter")
_FAIR_CLOCKS = ("kvm-clock", "hyperv_clocksource_tsc_page", "xen")
_LITTLE_BYTES, _LITTLE_SHARE = 2 << 30, 0.05
_CROWDED, _FULL = 0.25, 1.0
_STOLEN, _STOLEN_MUCH = 0.01, 0.05
_STEAL = 7  # its place among the times in /proc/stat
_CLOCK = "sys/devices/system/clocksource/clocksource0"


def items(files: Files, cores: int) -> list[Item]:
    """What there is to say of the system; ``cores`` is how many this process may use."""
    return [_kernel(files), _clock(files), _memory(files), _swap(files), _load(files, cores)]


def _kernel(files: Files) -> Item:
    release = files.text("proc/sys/kernel/osrelease")
    return Item("kernel", release) if release else unknown("kernel", "/proc/sys/kernel")


def _clock(files: Files) -> Item:
    name = files.text(f"{_CLOCK}/current_clocksource")
    if not name:
        return unknown("clock source", f"/{_CLOCK}")
    if name in _GOOD_CLOCKS:
        return Item("clock source", name)
    if name in _FAIR_CLOCKS:
        return Item("clock source", name, "note", "reading the clock goes through the host's page")
    return Item(
        "clock source",
        name,
        "warning",
        "reading the clock takes about a microsecond, and times of short kernels are as coarse",
        f"echo tsc | sudo tee /{_CLOCK}/current_clocksource, where tsc is available",
    )


def _bytes(fields: dict[str, str], name: str) -> int | None:
    """Of a line such as ``MemAvailable:  1024 kB``."""
    number, _, unit = fields.get(name, "").partition(" ")
    return int(number) << 10 if number.isdecimal() and unit == "kB" else None


def _memory(files: Files) -> Item:
    fields = files.fields("proc/meminfo")
    total, free = _bytes(fields, "MemTotal"), _bytes(fields, "MemAvailable")
    if total is None or free is None:
        return unknown("free memory", "/proc/meminfo")
    words = f"{format_bytes(free)} of {format_bytes(total)}"
    if free >= _LITTLE_BYTES and free >= _LITTLE_SHARE * total:
        return Item("free memory", words)
    return Item(
        "free memory",
        words,
        "warning",
        "large cases do not fit, and the system takes pages from files that are then read again",
        "end what holds memory",
    )


def _swap(files: Files) -> Item:
    fields = files.fields("proc/meminfo")
    total, free = _bytes(fields, "SwapTotal"), _bytes(fields, "SwapFree")
    if total is None or free is None:
        return unknown("swap", "/proc/meminfo")
    if total == free:
        return Item("swap", "none in use" if total else "none")
    return Item(
        "swap",
        f"{format_bytes(total - free)} in use",
        "note",
        "what was moved out comes back in the middle of a measurement",
        "sudo swapoff -a && sudo swapon -a, where memory suffices",
    )


def _load(files: Files, cores: int) -> Item:
    try:
        load = float(files.text("proc/loadavg").split()[0])
    except (IndexError, ValueError):
        return unknown("load", "/proc/loadavg")
    words = f"{load:g} over the last minute, on {cores} cores"
    if load < _CROWDED * cores:
        return Item("load", words)
    return Item(
        "load",
        words,
        "bad" if load >= _FULL * cores else "warning",
        "others take the cores: calls are preempted, and caches are not theirs alone",
        "wait until it is quiet, or end what runs",
    )


def stolen(before: str, after: str) -> Item:
    """Time that the host gave to others, between two readings of ``/proc/stat``."""
    first, second = _times(before), _times(after)
    if len(first) <= _STEAL or len(second) != len(first):
        return unknown("time given to neighbours", "/proc/stat")
    passed = sum(second) - sum(first)
    share = (second[_STEAL] - first[_STEAL]) / passed if passed > 0 else 0.0
    words = f"{share:.1%}"
    if share < _STOLEN:
        return Item("time given to neighbours", words)
    return Item(
        "time given to neighbours",
        words,
        "bad" if share >= _STOLEN_MUCH else "warning",
        "the host runs other machines on these cores in between, and no counter here sees it",
        "a host of your own, or optest ab, which takes revisions in turns",
    )


def _times(text: str) -> list[int]:
    words = text.split("\n", 1)[0].split()
    # User time, which comes first, holds guests' already: what comes behind steal is left out.
    return [int(word) for word in words[1 : _STEAL + 2] if word.isdecimal()] if words else []
