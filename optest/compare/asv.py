"""A run as a folder of results of ``asv`` (airspeed velocity): its file versions 2, 1 and 2.

A test function and a candidate are one benchmark, whose only parameter is the case: asv wants all
combinations of several, and a sweep is rarely that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from optest import stats
from optest.compare.side import Case, Cell, Side
from optest.errors import UsageError
from optest.store.records import Place, Run

BENCHMARKS = "benchmarks.json"
_BENCHMARKS, _MACHINE, _RESULTS = 2, 1, 2  # versions of the three kinds of files
_COLUMNS = (
    "result",
    "params",
    "version",
    "started_at",
    "duration",
    "stats_ci_99_a",
    "stats_ci_99_b",
    "stats_q_25",
    "stats_q_75",
    "stats_number",
    "stats_repeat",
)
_ENVIRONMENT = "optest"
_SHORT = 8  # digits of a commit in a file's name
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_DOTS = re.compile(r"[^A-Za-z0-9_]+")
_VERSION = "1"
_TIMEOUT_S = 60.0


_Names = dict[tuple[str, str, str], str]
_Cells = dict[str, dict[str, Cell]]  # by benchmark, then by case


def files(side: Side, run: Run, before: str | None = None) -> dict[str, str]:
    """Text of each file by its name, relative to asv's ``results_dir``.

    Of a candidate that is wrong or was not timed there is no value.

    Args:
        side: the run's cases.
        run: what asv is told of its commit and environment.
        before: what ``benchmarks.json`` of the folder holds already; its cases are kept.

    Raises:
        UsageError: the run knows no commit, which asv files it by, or ran on several machines, or
            ``before`` is none of asv's.
    """
    if not run.facts.commit:
        raise UsageError(
            f"run {run.id}: it knows no commit, and asv files results by one: run the op tests "
            "in a git checkout"
        )
    if len({place.host for place in side.places}) > 1:
        raise UsageError(
            f"run {run.id}: it ran on several machines, and a file of asv is about one: export "
            "as jsonl"
        )
    found = _benchmarks(side.cases)
    place = side.places[0] if side.places else run.facts.place
    machine = _UNSAFE.sub("_", place.host).lstrip(".") or "unknown"
    name = f"{machine}/{_UNSAFE.sub('_', run.facts.commit[:_SHORT])}-{_ENVIRONMENT}.json"
    return {
        BENCHMARKS: _document(_described(found, {} if before is None else _read(before))),
        f"{machine}/machine.json": _document(_machine(machine, place)),
        name: _document(_results(machine, place, run, found)),
    }


def _document(content: Mapping[str, Any]) -> str:
    return json.dumps(content, allow_nan=False, indent=1) + "\n"


def _read(before: str) -> dict[str, list[str]]:
    """The cases of each benchmark of ours that the folder knows."""
    try:
        known = json.loads(before)
        fits = known.pop("version") == _BENCHMARKS
        cases = {
            name: [str(case) for case in each["params"][0]]
            for name, each in known.items()
            if each["param_names"] == ["case"]
        }
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        fits = False
    if not fits or len(cases) < len(known):
        raise UsageError(
            f"{BENCHMARKS}: not what optest export --format asv writes: name another folder"
        )
    return cases


def _benchmarks(cases: Sequence[Case]) -> _Cells:
    names: _Names = {}
    out: _Cells = {}
    for case in cases:
        function = case.id.partition("[")[0].partition("::")[2] or case.table
        where = f" on {case.where}" if case.where else ""
        for candidate, cell in case.cells.items():
            name = _name((case.file, function, candidate), names)
            right = Cell() if cell.wrong or case.wrong else cell
            out.setdefault(name, {})[_label(case) + where] = right
    return out


def _name(key: tuple[str, str, str], names: _Names) -> str:
    """``file.function.candidate``, with a number where another came to the same."""
    if key not in names:
        file, function, candidate = key
        parts = (file.rpartition("/")[2].removesuffix(".py"), function, candidate)
        name = ".".join(_DOTS.sub("_", part) for part in parts if part)
        taken, number, free = {*names.values()}, 1, name
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        names[key] = free
    return names[key]


def _label(case: Case) -> str:
    """What stands in the brackets of an id."""
    _, bracket, inside = case.id.partition("[")
    return inside.removesuffix("]") if bracket else case.id


def _described(found: _Cells, before: Mapping[str, list[str]]) -> dict[str, Any]:
    described: dict[str, Any] = {
        name: {
            "code": "",
            "name": name,
            "param_names": ["case"],
            "params": [[*dict.fromkeys([*before.get(name, ()), *found.get(name, ())])]],
            "timeout": _TIMEOUT_S,
            "type": "time",
            "unit": "seconds",
            "version": _VERSION,
        }
        for name in dict.fromkeys([*before, *found])
    }
    return {**described, "version": _BENCHMARKS}


def _machine(name: str, place: Place) -> dict[str, Any]:
    return {**_facts(name, place), "version": _MACHINE}


def _facts(machine: str, place: Place) -> dict[str, str]:
    known = {"arch": place.gfx, "cpu": place.device, "machine": machine}
    return {**known, "num_cpu": "", "os": "", "ram": ""}


def _results(machine: str, place: Place, run: Run, found: _Cells) -> dict[str, Any]:
    milliseconds = int(run.started * 1000)
    python = place.versions.get("python", "")
    return {
        "commit_hash": run.facts.commit,
        "env_name": _ENVIRONMENT,
        "date": milliseconds,
        "params": {**_facts(machine, place), "python": python},
        "python": python,
        "requirements": {},
        "env_vars": dict(run.facts.environment),
        "result_columns": list(_COLUMNS),
        "results": {name: _row(each, milliseconds) for name, each in found.items()},
        "durations": {},
        "version": _RESULTS,
    }


def _row(cells: Mapping[str, Cell], milliseconds: int) -> list[Any]:
    """Values in the order of the columns, a case a value, in seconds; null where not known."""
    spreads = [_spread(cell) for cell in cells.values()]
    columns = [list(column) for column in zip(*spreads, strict=True)]
    values = [cell.us / 1e6 if cell.timed else None for cell in cells.values()]
    return [values, [[*cells]], _VERSION, milliseconds, None, *columns]


def _spread(cell: Cell) -> tuple[float | None, ...]:
    """The 99 % interval of the median, the quartiles, calls a sample, samples."""
    if not cell.samples:
        return (None,) * 6
    low, high = stats.median_interval(cell.samples, 0.99)
    known = low > 0.0
    seconds = [stats.quantile(cell.samples, share) / 1e6 for share in (0.25, 0.75)]
    interval = (low / 1e6, high / 1e6) if known else (None, None)
    return (*interval, *seconds, 1, len(cell.samples))
