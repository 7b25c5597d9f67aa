"""From counts and sums to a status and a reason: every rule of the check, once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optest.checking.domain import Rules
    from optest.checking.table import Table
    from optest.checking.tolerance import Tolerance
    from optest.checking.verdict import Status

_SMALL_RMS = 1e-6


@dataclass(frozen=True)
class Norms:
    """Root mean squares over the finite values: of the reference and of the difference."""

    reference: float
    difference: float
    share: float

    @classmethod
    def of(cls, table: Table, compared: int) -> Norms:
        """From the sums of squares of a pass over ``compared`` values."""
        wrong = table.count("nan_reference") + table.count("inf_reference")
        finite = max(compared - wrong, 1)
        reference = _root(table.total("sum_reference"), table.total("peak"), finite)
        difference = _root(table.total("sum_difference"), table.total("max_abs"), finite)
        share = difference / reference if reference else math.inf if difference else 0.0
        return cls(reference, difference, share)


def _root(total: float, peak: float, count: int) -> float:
    """Rms of ``count`` values; where their squares overflow fp64, what the peak alone gives."""
    return math.sqrt(total / count) if math.isfinite(total) else peak / math.sqrt(count)


def gross_floor(norms: Norms, rules: Rules) -> float:
    """What ``|a-b| - |a|/2`` must exceed to be gross, above 16 bounds; inf where no such rule."""
    return norms.reference / 4 if rules == "real" else math.inf


def swallowed(norms: Norms, rules: Rules) -> bool:
    """Whether the candidate is off by more than half the reference, all elements together."""
    return rules != "id" and norms.reference > _SMALL_RMS and norms.share > 0.5  # noqa: PLR2004


def within_ratio(mismatched: int, compared: int, ratio: float) -> bool:
    """Whether so many near misses are forgiven.

    Python divides integers with one correct rounding, so 29 of 100 equals the ratio 0.29 as the
    decimal says, and no share above the ratio rounds down to it below 10^15 elements.
    """
    return mismatched / compared <= ratio


def verdict_of(
    table: Table, norms: Norms, tolerance: Tolerance, compared: int, rules: Rules
) -> tuple[Status, str]:
    """Status and reason; the reasons of a failure come hardest first."""
    mismatched = table.count("mismatched")
    reasons = [
        *_hard(table, norms, tolerance, rules),
        *_too_many(mismatched, compared, tolerance.tol_err_ratio),
    ]
    if reasons:
        return "fail", "; ".join(reasons)
    if mismatched:
        share = mismatched / compared
        return "near", f"{share:.3g} of the elements miss narrowly ({mismatched} of {compared})"
    return "pass", ""


def undecided(norms: Norms, tolerance: Tolerance, rules: Rules) -> str:
    """What to tell of a passed pair whose reference is so small that atol alone decided."""
    if rules == "id" or norms.reference > _SMALL_RMS or norms.share <= 0.5:  # noqa: PLR2004
        return ""
    alone = f"atol={tolerance.atol:g} alone decided"
    candidate_first = (
        f"the two differ by rms {norms.difference:.3g}; the reference is the first argument: are "
        "they swapped?"
    )
    if not norms.reference:
        return f"the reference is zero throughout, the candidate is not: {alone}; {candidate_first}"
    text = (
        f"the reference is so small (rms {norms.reference:.3g}) that {alone}: zeros would pass; "
        "give atol=0"
    )
    return f"{text}; {candidate_first}" if norms.share > 2 else text  # noqa: PLR2004


def _hard(table: Table, norms: Norms, tolerance: Tolerance, rules: Rules) -> list[str]:
    reasons = []
    if wrong := table.count("nonfinite"):
        reasons.append(
            f"{wrong} element{'s' * (wrong > 1)} with NaN or Inf where the other side differs "
            f"(NaN: {table.count('nan_candidate')} in the candidate, "
            f"{table.count('nan_reference')} in the reference; "
            f"Inf: {table.count('inf_candidate')} and {table.count('inf_reference')})"
        )
    if gross := table.count("gross"):
        reasons.append(
            f"{gross} gross error{'s' * (gross > 1)} (over 16 bounds and over |want|/2 + rms/4), "
            "which no ratio forgives"
        )
    if swallowed(norms, rules):
        reasons.append(
            f"the difference is {norms.share:.3g} of the reference by norm, over one half "
            f"(reference rms {norms.reference:.3g}, atol {tolerance.atol:g})"
        )
    cap, max_abs = tolerance.max_abs_delta, table.total("max_abs")
    if cap is not None and max_abs > cap:
        reasons.append(f"max |difference| {max_abs:.6g} is above max_abs_delta={cap:g}")
    peak_cap = 0.5 * max(table.total("peak"), 1.0)
    if tolerance.catastrophic_check and max_abs > peak_cap:
        reasons.append(
            f"max |difference| {max_abs:.6g} is above half the reference's peak ({peak_cap:.6g})"
        )
    return reasons


def _too_many(mismatched: int, compared: int, ratio: float) -> list[str]:
    if within_ratio(mismatched, compared, ratio):
        return []
    share = mismatched / compared
    return [f"{share:.3g} of the elements mismatch ({mismatched} of {compared}), allowed {ratio:g}"]
