"""A contest's rounds: who took how long in each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kernels.contest import Call, Contest
from optest import stats

OURS, COPY = "ours", "copy"

Clock = Callable[[], float]  # in seconds
Times = dict[str, list[float]]  # seconds of each round, by whose they are


def seconds(call: Call, clock: Clock = time.perf_counter) -> float:
    """What one call takes."""
    begin = clock()
    call()
    return clock() - begin


def timed(contest: Contest, copy_calls: Sequence[Call], rounds: int, clock: Clock) -> Times:
    """All sides in turn, round by round, after a first call of each."""
    calls = {OURS: contest.ours, **{name: each.call for name, each in contest.rivals.items()}}
    slow = {name for name, each in contest.rivals.items() if each.slow}
    for call in calls.values():
        call()
    times: Times = {name: [] for name in calls}
    copied: list[list[float]] = [[] for _ in copy_calls]
    for index in range(rounds):
        for call, into in zip(copy_calls, copied, strict=True):
            into.append(seconds(call, clock))
        for name, call in calls.items():
            if name not in slow or index < max(3, rounds // 3):
                times[name].append(seconds(call, clock))
    # The way that is faster on the whole; the faster one of each round would be the luckier one.
    times[COPY] = min(copied, key=stats.median)
    return times


def ratios(times: Times, other: str) -> list[float]:
    """How many times faster ours was than ``other``, round by round."""
    return [b / a for a, b in zip(times[OURS], times[other], strict=False)]
