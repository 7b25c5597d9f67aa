"""The failing cases of the reported runs, with as much of their texts as a page bears."""

from __future__ import annotations

import shlex
from typing import Any

from optest.report.chosen import Chosen
from optest.report.section import card
from optest.store.records import Result
from optest.store.text import bounded

_LONGEST = 8_000  # characters of one text
_ALL_TEXTS = 2_000_000  # of all
_LONGEST_REASON = 2_000


def failures(chosen: Chosen) -> list[dict[str, Any]]:
    """Every result that is not good, in order; once the room is used up, without their texts."""
    out = []
    left = _ALL_TEXTS
    for run, results in enumerate(chosen.results):
        for result in results:
            if result.good:
                continue
            text = bounded(result.text, _LONGEST) if left > 0 else ""
            left -= len(text)
            out.append(_failure(run, result, text))
    return out


def _failure(run: int, result: Result, text: str) -> dict[str, Any]:
    unit = result.planned
    return {
        "run": run,
        "status": result.status,
        "id": unit.id,
        "card": card(result.place),
        "reason": result.reason[:_LONGEST_REASON],
        "text": text,
        "cut": bool(result.text) and not text,
        "alone": _alone(result),
    }


def _alone(result: Result) -> str:
    unit = result.planned
    words = ["python", shlex.quote(unit.file)]
    return " ".join(words if unit.whole else [f"OPTEST_ONLY={shlex.quote(unit.id)}", *words])
