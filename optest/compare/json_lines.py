"""JSON lines as results: what ``optest export`` wrote, or the events of a script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from optest.compare import results
from optest.compare.side import Side
from optest.errors import UsageError
from optest.store.records import BAD, GOOD, Place, Planned, Result, RunFacts

_T = TypeVar("_T")
_UNIT = Planned("", "")
_PLAIN: dict[type, object] = {
    Place: Place(),
    Planned: _UNIT,
    Result: Result(_UNIT, ""),
    RunFacts: RunFacts(),
}


def side(name: str, text: str) -> Side:
    """One side; of a case that is told of twice, the later result.

    Raises:
        UsageError: a line is no JSON object, or is neither of the two kinds; the results are of
            several runs; there is none.
    """
    found: dict[tuple[str, str, str], Result] = {}
    runs: dict[str, Mapping[str, Any]] = {}
    begun: dict[str, dict[str, Any]] = {}
    again = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            record = _object(f"{name}, line {number}", line)
            if record.get("event") == "started":
                begun[str(record.get("id"))] = record
            result = _result(f"{name}, line {number}", record, begun)
            if isinstance(record.get("run"), dict):
                runs[str(record["run"].get("id"))] = record["run"]
            if result is not None:
                again += result.planned.key in found
                found[result.planned.key] = result
    if len(runs) > 1:
        raise UsageError(f"{name}: results of {len(runs)} runs ({', '.join(runs)}): expected one")
    if not found:
        raise UsageError(f"{name}: no case came to its end: expected the lines of optest export")
    run = next(iter(runs.values()), None)
    try:
        facts = None if run is None else _facts(run)
    except (TypeError, AttributeError):
        raise UsageError(f"{name}: a run whose facts are not as optest writes them") from None
    made = results.side(_title(name, run), found.values(), facts)
    notes = [f"{name}: {again} results of cases that are told of again later"] if again else []
    return replace(made, notes=notes)


def _title(name: str, run: Mapping[str, Any] | None) -> str:
    return name if run is None else f"{name} (run {run.get('id')})"


def _object(place: str, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        words = getattr(error, "msg", "nested too deeply")
        raise UsageError(f"{place}: no JSON ({words}): was the file cut off?") from None
    if not isinstance(record, dict):
        raise UsageError(f"{place}: expected a JSON object, found {type(record).__name__}")
    return record


def _result(
    place: str, record: dict[str, Any], begun: Mapping[str, dict[str, Any]]
) -> Result | None:
    """The result of a line; None for an event that is none. ``begun``: its case's own event."""
    try:
        if "planned" in record:
            return _exported(record)
        if "event" in record:
            told = record["event"] == "finished"
            return _of_event(record, begun.get(str(record["id"]), {})) if told else None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(f"{place}: a result whose fields are not as optest writes them") from None
    raise UsageError(f"{place}: expected a line of optest export, or of OPTEST_EVENTS")


def _exported(record: dict[str, Any]) -> Result:
    planned = _record(Planned, record["planned"])
    place = _record(Place, record.get("place") or {})
    rest = {**record, "planned": planned, "place": place}
    return _checked(_record(Result, rest))


def _of_event(record: dict[str, Any], begun: Mapping[str, Any]) -> Result:
    identity = str(record["id"])
    file, _, rest = identity.partition("::")
    row = record.get("row") or {}
    arguments = begun.get("arguments") or {}
    planned = {"id": identity, "file": file, "function": rest.partition("[")[0]}
    return _exported(
        {
            "planned": {**planned, "arguments": arguments},
            "status": record["status"],
            "reason": str(record.get("reason") or ""),
            "row": row,
            "place": {"gfx": str(row.get("gfx") or "")},
        }
    )


def _checked(result: Result) -> Result:
    if result.status not in (*GOOD, *BAD):
        raise ValueError(result.status)
    return result


def _record(kind: type[_T], values: Mapping[str, Any]) -> _T:
    """A record from what its fields are; what it does not know is left alone.

    Raises:
        TypeError: a field is of another type than one that stands there by default.
    """
    plain = vars(_PLAIN[kind])
    known = {name: value for name, value in values.items() if name in plain}
    for name, value in known.items():
        like = plain[name]
        kinds = (int, float) if isinstance(like, (int, float)) else type(like)
        if like is not None and not isinstance(value, kinds):
            raise TypeError(f"{name}: {value!r}")
    return kind(**known)


def _facts(run: Mapping[str, Any]) -> RunFacts:
    place = _record(Place, run.get("place") or {})
    return _record(RunFacts, {**run, "place": place})
