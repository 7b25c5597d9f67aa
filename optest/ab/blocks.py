"""Results of one case, a round each, made one result: its timings remember their blocks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from optest import stats
from optest.compare import in_turn
from optest.compare.padded import Samples
from optest.store.records import Result, is_timing

_SUMMED = ("n", "dropped", "calls")


def merged(rounds: Sequence[Result]) -> Result:
    """One result of all rounds, in order.

    It is as good as the worst of them. A timing has the samples of all rounds, and under
    ``blocks`` how many came from each, 0 where a round has none; it is contended where most of
    its rounds are. A number is the median of its rounds; all else is the last one's.
    """
    bad = [each for each in rounds if not each.good]
    last = (bad or rounds)[-1]
    if len(rounds) == 1 or bad:
        return replace(last, row=_row([last]))
    return replace(
        last,
        row=_row(rounds),
        seconds=math.fsum(each.seconds for each in rounds),
        started=rounds[0].started,
        findings=_distinct(rounds, "findings"),
        left=_distinct(rounds, "left"),
    )


def of_timing(timing: dict[str, Any]) -> list[Samples]:
    """The samples of each round of a timing that ``merged`` made; of another, all as one block."""
    return in_turn.split(timing["samples_us"], timing.get(in_turn.BLOCKS) or ())


def _distinct(rounds: Sequence[Result], name: str) -> list[Any]:
    found: list[Any] = []
    for each in rounds:
        found += [value for value in getattr(each, name) if value not in found]
    return found


def _row(rounds: Sequence[Result]) -> dict[str, Any]:
    return {
        name: _value(last, [each.row.get(name) for each in rounds])
        for name, last in rounds[-1].row.items()
    }


def _value(last: Any, values: Sequence[Any]) -> Any:  # noqa: ANN401 - any JSON type
    if is_timing(last):
        return _timing(last, values)
    numbers = [value for value in values if type(value) is float and math.isfinite(value)]
    return statistics.median(numbers) if numbers and type(last) is float else last


def _timing(last: dict[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    timings = [value if is_timing(value) else {} for value in values]
    blocks = [list(timing.get("samples_us") or ()) for timing in timings]
    samples = [sample for block in blocks for sample in block]
    if not samples:
        return last
    sums = {name: sum(timing.get(name) or 0 for timing in timings) for name in _SUMMED}
    notes = dict.fromkeys(note for timing in timings for note in timing.get("notes") or ())
    return {
        **last,
        **sums,
        "median_us": stats.median(samples),
        "mean_us": stats.mean(samples),
        "min_us": min(samples),
        "max_us": max(samples),
        "samples_us": samples,
        "ci_us": [each if math.isfinite(each) else None for each in stats.median_interval(samples)],
        "contended": 2 * sum(bool(timing.get("contended")) for timing in timings) > len(timings),
        "notes": list(notes),
        in_turn.BLOCKS: [len(block) for block in blocks],
    }
