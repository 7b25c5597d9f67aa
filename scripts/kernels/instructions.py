"""Instructions: how many a kernel takes, and how fast it would be if nothing else took time.

They are counted on a small input, by stepping through them. A processor takes each kind of them at
most so often in a second, which is measured: the longest of what all of them, those on vectors and
of these those that multiply and those that move lanes take at that pace is a time that no memory,
however fast, makes shorter.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernels.contest import Call, Maker
from kernels.course import seconds
from optest import native
from optest.timing.threads import threads

# Any, any on vectors, what multiplies, what moves lanes: as csrc/instructions.cpp numbers them.
KINDS = (0, 1, 2, 3)

_AT_PEAK, _TRIES = 3_000_000, 20
_LONGEST_CALL = 1e-3  # in seconds: each of its instructions takes microseconds to step over


def operators() -> Any | None:  # noqa: ANN401 - torch types its namespaces no better
    """What counts; None where this CPU, or system, is none whose instructions can be counted."""
    counting = native.csrc("instructions")
    known = hasattr(counting, "begin_counting") and native.csrc("harness").isa().startswith("avx")
    return counting if known else None


def peaks(counting: Any, before: tuple[float, ...] = ()) -> tuple[float, ...]:  # noqa: ANN401
    """Instructions a second that all threads together take at most, of each of KINDS.

    The highest that was seen, ``before`` too: a machine that others use has slow minutes.
    """
    runs = (partial(counting.run_instructions, kind, _AT_PEAK) for kind in KINDS)
    best = [min(seconds(run) for _ in range(_TRIES)) for run in runs]
    now = [_AT_PEAK * torch.get_num_threads() / least for least in best]
    return tuple(map(max, now, before or now))


def code() -> torch.Tensor:
    """Address ranges [n, 2] of the libraries of csrc in this process, int64."""
    cache = native.library_path("instructions").parents[1]  # each library has a folder of its own
    ranges = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, _, _, _, *file = line.split(maxsplit=5)
        if "x" in rights and file and cache in Path(file[0]).parents:
            ranges.append([int(address, 16) for address in span.split("-")])
    return torch.tensor(ranges)


def counted(counting: Any, call: Call) -> list[int]:  # noqa: ANN401
    """Instructions that a call takes in csrc, of each of KINDS, on one thread.

    The call must have run before: it may not start threads, nor load code.
    """
    counts, ranges = torch.zeros(len(KINDS), dtype=torch.int64), code()
    with threads(1):
        counting.begin_counting(ranges)
        try:
            call()
        finally:
            counting.end_counting(counts)
    return counts.tolist()


def bound(
    counting: Any,  # noqa: ANN401
    make: Maker,
    at_most: tuple[float, ...],
) -> float | None:
    """Bytes a second that the contest's instructions allow at their ``peaks``.

    Args:
        counting: as ``operators`` gives it.
        make: makes the contest small.
        at_most: instructions a second, as ``peaks`` gives them.

    Returns:
        None where stepping through the call would take minutes.
    """
    contest = make()
    contest.ours()
    with threads(1):
        if min(seconds(contest.ours) for _ in range(3)) > _LONGEST_CALL:
            return None
    counts = counted(counting, contest.ours)
    return contest.nbytes / max(n / peak for n, peak in zip(counts, at_most, strict=True))
