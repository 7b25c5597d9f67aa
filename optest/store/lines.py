"""A result as flat lines for a spreadsheet or a data frame: one for each candidate of a case."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from optest import stats
from optest.store import columns
from optest.store.records import Result, Run, is_timing, is_verdict

Line = dict[str, Any]
_QUANTILES = (5, 25, 75, 95)
_FACTS = ("n", "dropped", "contended", "clock", "cache", "overhead_us")


def lines_of(run: Run, result: Result) -> Iterator[Line]:
    """One line a candidate; one alone for a case that measured none.

    What belongs to the case as a whole stands on each of its lines.
    """
    groups = columns.by_candidate(result.row)
    own = groups.pop("", {})
    if not groups or any(quantity in own for group in groups.values() for quantity in group):
        yield _line(run, result, "", own)
    for candidate, quantities in groups.items():
        yield _line(run, result, candidate, {**own, **quantities})


def _line(run: Run, result: Result, candidate: str, quantities: Mapping[str, Any]) -> Line:
    line: Line = {**_fixed(run, result), "candidate": candidate}
    for name, value in result.planned.arguments.items():
        line[f"arg.{name}"] = _cell(value)
    for quantity, value in quantities.items():
        if (
            quantity not in line or line[quantity] != value
        ):  # the column gfx says once more what stands there
            name = f"column.{quantity}" if quantity in line else quantity
            line.update(_flat(name, value))
    return line


def _fixed(run: Run, result: Result) -> Line:
    return {
        "run": run.id,
        "commit": run.facts.commit,
        "branch": run.facts.branch,
        "dirty": run.facts.dirty,
        "mode": run.facts.mode,
        "file": result.planned.file,
        "function": result.planned.function,
        "id": result.planned.id,
        "where": result.planned.where,
        "host": result.place.host,
        "gfx": result.place.gfx,
        "device": result.place.device,
        "status": result.status,
        "reason": result.reason,
        "seconds": result.seconds,
        "started": result.started,
        "seed": result.seed,
        "neighbours": result.neighbours,
        "peak_bytes": result.peak_bytes,
        "device_peak_bytes": result.device_peak_bytes,
    }


def _flat(name: str, value: object) -> Line:
    if is_timing(value):
        assert isinstance(value, dict)
        return _timing(name, value)
    if is_verdict(value):
        assert isinstance(value, dict)
        words = {f"{name}.status": value.get("status"), f"{name}.reason": value.get("reason")}
        return {name: value.get("value"), **words}
    return {name: _cell(value)}


def _timing(name: str, value: Mapping[str, Any]) -> Line:
    low, high = value.get("ci_us") or (None, None)
    line: Line = {name: value["median_us"], f"{name}.ci_low": low, f"{name}.ci_high": high}
    samples = [each for each in value["samples_us"] or () if isinstance(each, (int, float))]
    if samples:
        line[f"{name}.min"], line[f"{name}.max"] = min(samples), max(samples)
        line.update({f"{name}.p{q}": stats.quantile(samples, q / 100) for q in _QUANTILES})
    line.update({f"{name}.{fact}": value[fact] for fact in _FACTS if fact in value})
    if value.get("kernels"):
        line[f"{name}.kernels"] = _cell(value["kernels"])
    return line


def _cell(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return json.dumps(value)
