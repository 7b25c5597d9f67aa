"""A lane: the part of a machine on which one unit runs at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from optest.errors import UsageError

_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@dataclass(frozen=True)
class Lane:
    """Where one unit runs at a time.

    Attributes:
        cores: the cores its processes are pinned to; empty for all.
        threads: torch's threads; 0 for as many as torch takes by itself.
        environment: variables of its processes, such as the visible device.
        device: lanes of one name here share its memory; empty without a GPU.
        device_bytes: memory of the device; None where not known.
    """

    name: str = "cpu"
    cores: tuple[int, ...] = ()
    threads: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    device: str = ""
    device_bytes: int | None = None


def core_lanes(jobs: int = 1) -> list[Lane]:
    """``jobs`` lanes with the cores of this process divided among them, threads alike.

    One lane is left as a plain script would be: on all cores, with torch's own threads.

    Raises:
        UsageError: there are fewer cores.
    """
    if jobs == 1:
        return [Lane("cpu")]
    cores = sorted(_usable_cores(), key=lambda core: (_first_sibling(core), core))
    if jobs > len(cores) or jobs < 1:
        raise UsageError(f"--jobs {jobs}: expected 1 to {len(cores)}, the cores of this machine.")
    lanes = []
    for number in range(jobs):
        first, last = (len(cores) * at // jobs for at in (number, number + 1))
        group = tuple(sorted(cores[first:last]))
        threads = len({_first_sibling(core) for core in group})
        lanes.append(Lane(f"cpu{number}", cores=group, threads=threads))
    return lanes


def _usable_cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _first_sibling(core: int) -> int:
    """The first of the logical cores that are one physical core; itself where not told."""
    try:
        text = Path(_TOPOLOGY.format(core)).read_text(encoding="ascii")
        return int(text.replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return core


def device_lanes(memory: list[int], *, hip: bool, environment: Mapping[str, str]) -> list[Lane]:
    """One lane for each GPU that is visible, in the words of the variable that makes it so.

    Args:
        memory: bytes of each visible GPU.
        hip: whether the runtime is ROCm's.
        environment: the variables that made these visible.
    """
    names = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if hip else ("CUDA_VISIBLE_DEVICES",)
    name = next((each for each in names if environment.get(each, "").strip()), names[0])
    given = [word.strip() for word in environment.get(name, "").split(",") if word.strip()]
    words = given if len(given) >= len(memory) else [str(at) for at in range(len(memory))]
    threads = max(1, len(_usable_cores()) // max(1, len(memory)))
    return [
        Lane(
            f"gpu{word}", threads=threads, environment={name: word}, device=word, device_bytes=size
        )
        for word, size in zip(words, memory, strict=False)
    ]
