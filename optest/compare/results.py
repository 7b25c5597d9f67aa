"""Results of a run, from a store or a file of JSON lines, as one side of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optest.compare import in_turn
from optest.compare.side import WHOLE, Case, Cell, Side
from optest.store import columns
from optest.store.records import Place, Result, RunFacts, is_timing, is_verdict

_TIME, _ERROR = "us", "err"
_NOT_RUN = "skipped"
_ASKED = ("guards", "jobs", "executor")  # options that change how a time comes about
_FAIL = "fail"
BAD_WORDS = ("fail", "failed", "false")
# Microseconds, a femtosecond and 31 years: what lies beyond is a slip, and would overflow.
_SHORTEST, _LONGEST = 1e-9, 1e15
_MOST_WRONG = (
    0.05  # the share of mismatches that checkAllclose lets pass where nothing else is said
)


def side(name: str, results: Iterable[Result], facts: RunFacts | None = None) -> Side:
    """One side; cases that were skipped, and scripts that ran whole, are no part of it.

    Args:
        name: what a reader calls it.
        results: in order.
        facts: of the run; None where only the results are known.
    """
    cases, places = [], dict[str, Place]()
    for result in results:
        if result.planned.whole or result.status == _NOT_RUN:
            continue
        places.setdefault(repr(result.place), result.place)
        cases.append(_case(result))
    return Side(
        name,
        cases,
        [place for place in places.values() if place != Place()],
        _settings(facts),
        _versions(facts, places.values()),
        pair="" if facts is None else in_turn.pair_of(facts),
    )


def is_time(value: float) -> bool:
    """Whether it may be the time of a call, in microseconds."""
    return _SHORTEST <= value <= _LONGEST


def wrong_share(value: float) -> str:
    """Why a share of mismatched elements that came without a verdict is taken for wrong; or ""."""
    if not value > _MOST_WRONG:
        return ""
    share = value if value <= _LONGEST else math.inf  # an integer may be too large for a float
    return f"{share:.3g} of the elements mismatch"


def _case(result: Result) -> Case:
    cells = dict(_cells(result.row))
    wrong = "" if result.good else result.reason or result.status
    if wrong and any(cell.wrong for cell in cells.values()) and result.status == "failed":
        wrong = ""  # its candidates say which of them it is
    if result.status in {"crashed", "hung"}:
        wrong = f"{result.status}: {result.reason}"
    arguments = {name: text(value) for name, value in result.planned.arguments.items()}
    planned = result.planned
    return Case(
        planned.id,
        planned.file,
        planned.table or planned.function,
        arguments,
        planned.where,
        result.place.gfx or planned.where,
        wrong,
        cells,
    )


def text(value: object) -> str:
    """An argument as a table shows it."""
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _cells(row: Mapping[str, Any]) -> Iterable[tuple[str, Cell]]:
    groups = columns.by_candidate(row)
    for candidate, quantities in groups.items():
        wrong = _wrong(quantities.get(_ERROR))
        times = {name: value for name, value in quantities.items() if _is_time(name, value)}
        for quantity, value in times.items():
            name = candidate if quantity == _TIME else columns.joined(candidate, quantity)
            yield name, _cell(value, wrong)
        if not times and (wrong or (candidate != WHOLE and _ERROR in quantities)):
            yield candidate, Cell(wrong=wrong)


def _is_time(quantity: str, value: object) -> bool:
    return is_timing(value) or (quantity == _TIME and isinstance(value, (int, float)))


def _cell(value: Any, wrong: str) -> Cell:  # noqa: ANN401 - any JSON type
    if not is_timing(value):
        return Cell(_time(value), wrong=wrong)
    samples = _samples(value["samples_us"])
    blocks = value.get(in_turn.BLOCKS) or ()
    whole = isinstance(blocks, (list, tuple)) and all(type(each) is int for each in blocks)
    return Cell(
        _time(value["median_us"]),
        samples,
        wrong,
        str(value.get("clock") or ""),
        str(value.get("cache") or ""),
        bool(value.get("contended")),
        blocks if whole and sum(blocks) == len(samples) else (),
    )


def _samples(value: object) -> Sequence[float]:
    """The samples of a timing; none where one of them is no number."""
    if not isinstance(value, (list, tuple)):
        return ()
    known = all(isinstance(each, (int, float)) and abs(each) <= _LONGEST for each in value)
    return value if known else ()


def _time(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and is_time(value) else math.nan


def _wrong(value: Any) -> str:  # noqa: ANN401 - the same
    if is_verdict(value):
        return str(value.get("reason") or "failed") if value.get("status") == _FAIL else ""
    if isinstance(value, bool):
        return "" if value else "failed"
    if isinstance(value, (int, float)):
        return wrong_share(value)
    if isinstance(value, str):
        return _wrong_words(value)
    return ""


def _wrong_words(text: str) -> str:
    """The same where it is text: ``inf`` stands for what JSON has no number for."""
    number, _, word = text.strip().rpartition(" ")
    if word.lower() in BAD_WORDS:
        return f"err {number}" if number else "failed"
    return wrong_share(math.inf) if word == "inf" else ""


def _settings(facts: RunFacts | None) -> dict[str, str]:
    if facts is None:
        return {}
    said = facts.arguments
    asked = {f"--{name}": str(said[name]) for name in _ASKED if said.get(name)}
    return {"mode": facts.mode, **facts.environment, **asked}


def _versions(facts: RunFacts | None, places: Iterable[Place]) -> dict[str, str]:
    found = {"optest": facts.optest} if facts is not None and facts.optest else {}
    for place in places:
        found |= place.versions
        if place.driver:
            found["driver"] = place.driver
    return found
