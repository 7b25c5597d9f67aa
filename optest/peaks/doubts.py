"""Ceilings that contradict one another."""

from __future__ import annotations

from collections.abc import Iterable

from optest.store.records import Ceiling

_OWN_CACHES = ("L1", "L2")


def doubts(ceilings: Iterable[Ceiling]) -> list[str]:
    """A line where all threads together did less than one alone, though each has units of its own.

    Nothing in the machine does that to matrix products and to a core's own caches; other processes
    on the cores do.
    """
    by_threads: dict[int, dict[tuple[str, str], float]] = {}
    for each in ceilings:
        if each.kind == "matrix" or each.name in _OWN_CACHES:
            by_threads.setdefault(each.threads, {})[each.kind, each.name] = each.value
    one, most = (by_threads.get(count, {}) for count in (1, max(by_threads, default=1)))
    slower = [
        f"{kind} {name}" for kind, name in one if most.get((kind, name), 0.0) < one[kind, name]
    ]
    if not slower:
        return []
    words = (
        f"{', '.join(slower)}: slower with all threads than with one: other processes take the "
        "cores. What all threads reached is too low: measure again on a quiet machine"
    )
    return [words]
