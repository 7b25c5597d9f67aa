"""Bad elements against the share of them that is allowed, and the words for a failure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.checking import gate_engines, gate_look
from optest.checking.alike import refuse_unreadable, why_unlike
from optest.checking.comparators import Detail
from optest.checking.gate import Allclose, Gate, RelativeDifference

if TYPE_CHECKING:
    from optest.checking.gate import GateTable
    from optest.checking.gate_look import Seen
    from optest.checking.narrowing import Narrowing


@dataclass(frozen=True)
class Allowance:
    """What a table of bad elements may hold, under the name of the comparator that asks."""

    kind: str
    ratio: float
    cap: float = math.inf
    show: int = 10

    def points(self, compared: int) -> int:
        """Bad elements that pass."""
        return round(self.ratio * compared)


@torch.no_grad()
def judge(  # noqa: PLR0913 - a comparator's parameters and the pair
    actual: torch.Tensor,
    expected: torch.Tensor,
    rule: Allclose | RelativeDifference,
    allowance: Allowance,
    *,
    narrowing: Narrowing,
    ignore_nan: bool = False,
) -> tuple[bool, Detail]:
    """One pair under a rule and an allowance."""
    if reason := unlike(actual, expected) or narrowing.refusal(actual):
        return refused(f"{allowance.kind} fail: {reason}", expected.numel())
    actual, expected = narrowing.of(actual), narrowing.of(expected)
    if not actual.numel():
        return True, Detail("nothing to compare", mismatched=0, compared=0)
    gate = Gate.of(expected, actual, rule, ignore_nan=ignore_nan)
    table = gate_engines.scan(gate)
    compared = gate.pair.values - table.count("ignored")
    if not compared:
        return refused(f"{allowance.kind} fail: the golden is entirely NaN", gate.pair.values)
    if table.illegal:
        text = f"{allowance.kind} fail: illegal values in comparison: {illegal(table)}"
        lines = [text, *(_line(gate, seen) for seen in gate_look.first_illegal(gate, table, 1))]
        wrong = min(compared, table.count("bad") + table.illegal)
        return False, Detail(indented(*lines), mismatched=wrong, compared=compared)
    return weigh(gate, table, allowance, compared)


def weigh(gate: Gate, table: GateTable, allowance: Allowance, compared: int) -> tuple[bool, Detail]:
    """Bad elements against what is allowed; a failure shows where they are."""
    bad, points = table.count("bad"), allowance.points(compared)
    capped = bool(bad) and table.worst >= allowance.cap
    passed = bad <= points and not capped
    count = (
        f"error_count={bad}/{compared} (ratio={bad / compared:.4%}, "
        f"allowed<={allowance.ratio:.4%}, threshold={points} pts)"
    )
    ignored = table.count("ignored")
    note = f"{ignored}/{gate.pair.values} NaN golden pts ignored" if ignored else ""
    if passed:
        text = "; ".join(filter(None, (count if bad else "", note)))
        return True, Detail(text, mismatched=bad, compared=compared)
    reasons = [count] if bad > points else []
    if capped:
        reasons.append(f"worst rdiff={table.worst:.4g} >= max_diff_hd={allowance.cap:.4g}")
    lines = [f"{allowance.kind} fail: {' AND '.join(reasons)}", _of_rule(gate.rule)]
    lines += [note] if note else []
    lines += located(gate, table, allowance.show)
    return False, Detail(indented(*lines), mismatched=bad, compared=compared)


def located(gate: Gate, table: GateTable, show: int) -> list[str]:
    """Lines that name the worst element and the first bad ones."""
    lines = []
    worst = gate_look.worst_of(gate, table)
    if worst is not None:
        what = "abs diff" if isinstance(gate.rule, Allclose) else "rdiff"
        lines.append(f"max {what}={worst.measure:.6g} at {worst.place}")
    seen = gate_look.first_bad(gate, table, show)
    if seen:
        lines.append(f"first {len(seen)} mismatches:")
        lines += [_line(gate, element) for element in seen]
    return lines


def unlike(actual: torch.Tensor, expected: torch.Tensor) -> str:
    """Why the pair cannot be compared element by element; empty where it can.

    Raises:
        TypeError: one of them is no dense tensor.
    """
    refuse_unreadable("actual", actual)
    refuse_unreadable("expected", expected)
    if actual.dtype != expected.dtype:
        return f"dtype mismatch: actual={actual.dtype} expected={expected.dtype}"
    if actual.shape != expected.shape:
        shapes = f"actual={tuple(actual.shape)} expected={tuple(expected.shape)}"
        return f"shape mismatch: {shapes} (nothing is broadcast)"
    return why_unlike(expected, actual)


def refused(text: str, compared: int) -> tuple[bool, Detail]:
    """A failure of the whole pair, which no count describes."""
    return False, Detail(indented(text), mismatched=compared, compared=compared)


def illegal(table: GateTable) -> str:
    """NaN and Inf of either side."""
    actual, expected = (
        f"NaN={table.count(f'nan_{side}')} Inf={table.count(f'inf_{side}')}"
        for side in ("actual", "expected")
    )
    return f"actual: {actual}; expected: {expected}"


def _of_rule(rule: object) -> str:
    if isinstance(rule, Allclose):
        return f"atol={rule.atol:g} rtol={rule.rtol:g}"
    assert isinstance(rule, RelativeDifference)
    return f"diff_thd={rule.threshold:g}"


def _line(gate: Gate, seen: Seen) -> str:
    text = f"{seen.place} actual={_value(seen.actual)}, expected={_value(seen.expected)}, "
    if isinstance(gate.rule, Allclose):
        bound = gate.rule.atol + gate.rule.rtol * abs(seen.expected)
        return f"{text}diff={seen.difference:.4g}, tol={bound:.4g}"
    return f"{text}abs_diff={seen.difference:.4g}, rdiff={seen.measure:.4g}"


def _value(value: complex) -> str:
    return f"{value:.8g}" if isinstance(value, (float, complex)) else str(value)


def indented(*lines: str) -> str:
    """Lines as a comparator's detail has them."""
    return "\n".join(f"    {line}" for line in lines)
