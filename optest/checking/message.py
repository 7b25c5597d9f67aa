"""A verdict in words, for logs and exceptions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optest.checking.verdict import Element, Value, Verdict

_WORDS = {"pass": "passed", "near": "passed, near misses", "fail": "FAILED"}


def describe(verdict: Verdict, msg: str = "") -> str:
    """The verdict as text: one line for a pass, else what, where and the first wrong elements."""
    name = msg or verdict.msg
    head = f"{name}: " if name else ""
    head += _WORDS[verdict.status]
    lines = [f"{head}: {verdict.reason}" if verdict.reason else f"{head}{_extent(verdict)}"]
    if verdict.status != "pass" and verdict.finding.dtype and verdict.compared:
        lines += [f"{_pair(verdict)}; bound {_bound(verdict)}"]
        lines += [f"where: {verdict.pattern}"] if verdict.pattern else []
        lines += [f"worst: {_element(verdict.worst)}"] if verdict.worst else []
        lines += [f"       {_element(element)}" for element in _others(verdict)]
    lines += [f"note: {note}" for note in verdict.notes]
    return "\n  ".join(lines)


def _extent(verdict: Verdict) -> str:
    return f": {_pair(verdict)}, all within {_bound(verdict)}" if verdict.compared else ""


def _pair(verdict: Verdict) -> str:
    shape = " x ".join(map(str, verdict.finding.shape)) or "scalar"
    return f"{shape} {verdict.finding.dtype}"


def _bound(verdict: Verdict) -> str:
    tolerance = verdict.tolerance
    return f"{tolerance.atol:g} + {tolerance.rtol:g} * |want|, want being the first argument"


def _others(verdict: Verdict) -> tuple[Element, ...]:
    worst = verdict.worst.index if verdict.worst else None
    return tuple(element for element in verdict.shown if element.index != worst)


def _element(element: Element) -> str:
    index = ", ".join(map(str, element.index))
    text = f"[{index}] got {_value(element.got)}, want {_value(element.want)}"
    if not math.isfinite(element.abs_diff):
        return text
    relative = f" ({element.rel_diff:.3g} of want)" if math.isfinite(element.rel_diff) else ""
    return f"{text}, off by {element.abs_diff:.6g}{relative}"


def _value(value: Value) -> str:
    return f"{value:.8g}" if isinstance(value, (float, complex)) else str(value)
