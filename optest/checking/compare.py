"""The front door of a check: what may be compared, by which engine, and the verdict."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch

from optest.checking import engines, judge
from optest.checking.alike import refuse_unreadable, short_dtype, why_unlike
from optest.checking.comparators import judge_with
from optest.checking.domain import Domain, domain_of
from optest.checking.locate import locate
from optest.checking.pair import Pair
from optest.checking.pattern import pattern_of
from optest.checking.table import Bounds, Table
from optest.checking.tolerance import Tolerance
from optest.checking.verdict import Counts, Finding, Verdict

if TYPE_CHECKING:
    from optest.checking.comparators import Comparator


@torch.no_grad()
def compare(
    reference: torch.Tensor,
    candidate: torch.Tensor,
    tolerance: Tolerance = Tolerance(),  # noqa: B008 - frozen
    *,
    comparator: Comparator | None = None,
    show: int = 8,
) -> Verdict:
    """Judge a candidate's result against the reference, element by element.

    Args:
        reference: what is right; the bound of an element is ``atol + rtol * |reference|``.
        candidate: what the kernel gave: same shape, and same dtype and device too.
        tolerance: see ``Tolerance``.
        comparator: a check of one's own in place of the element-wise one.
        show: how many wrong elements to keep in the verdict.

    Returns:
        The share of mismatched elements as a float that knows status, reason and place; 1.0 and
        failed where shape, dtype or device differ.

    Raises:
        TypeError: an argument is no dense tensor with memory, or of a dtype without values.
    """
    for name, value in (("reference", reference), ("candidate", candidate)):
        refuse_unreadable(name, value)
    if reason := why_unlike(reference, candidate, check_dtype=tolerance.check_dtype):
        return Verdict(1.0, Finding("fail", reason, tolerance=tolerance))
    if comparator is not None:
        return judge_with(comparator, reference, candidate, tolerance)
    if not reference.numel():
        note = f"both are empty {tuple(reference.shape)}: nothing was compared"
        return Verdict(0.0, Finding("pass", note, tolerance=tolerance))
    return _Comparison.of(reference, candidate, tolerance).verdict(show)


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """One pair under one tolerance, through the passes it needs."""

    pair: Pair
    domain: Domain
    tolerance: Tolerance
    dtype: str

    @classmethod
    def of(
        cls, reference: torch.Tensor, candidate: torch.Tensor, tolerance: Tolerance
    ) -> _Comparison:
        names = dict.fromkeys((short_dtype(reference), short_dtype(candidate)))
        domain = domain_of(reference.dtype, candidate.dtype)
        return cls(Pair.of(reference, candidate), domain, tolerance, " against ".join(names))

    def verdict(self, show: int) -> Verdict:
        rules, compared = self.domain.rules, self.pair.values
        bounds = Bounds(
            self.tolerance.rtol,
            self.tolerance.atol,
            self.tolerance.equal_nan,
            peak=bool(self.tolerance.catastrophic_check),
        )
        table = engines.scan(self.pair, self.domain, bounds)
        norms = judge.Norms.of(table, compared)
        table, bounds, notes = self._again(table, bounds, norms)
        status, reason = judge.verdict_of(table, norms, self.tolerance, compared, rules)
        mismatched = table.count("mismatched")
        finding = Finding(
            status=status,
            reason=reason,
            counts=_counts(table, compared),
            max_abs=table.total("max_abs"),
            tolerance=self.tolerance,
            shape=self.pair.unpacked_shape,
            dtype=self.dtype,
            notes=(*notes, *self._notes(table, norms, passed=status != "fail")),
        )
        if mismatched or status == "fail":
            finding = self._located(finding, table, bounds, show)
        return Verdict(mismatched / compared, finding)

    def _again(
        self, table: Table, bounds: Bounds, norms: judge.Norms
    ) -> tuple[Table, Bounds, list[str]]:
        """A second pass where the first found gross errors, or that atol hides the difference."""
        floor = judge.gross_floor(norms, self.domain.rules)
        if table.total("margin") > floor:
            counted = dataclasses.replace(bounds, gross_floor=floor)
            return engines.scan(self.pair, self.domain, counted), counted, []
        mismatched, compared = table.count("mismatched"), self.pair.values
        hidden = judge.within_ratio(mismatched, compared, self.tolerance.tol_err_ratio)
        if not (hidden and bounds.atol and judge.swallowed(norms, self.domain.rules)):
            return table, bounds, []
        bare = dataclasses.replace(bounds, atol=0.0)
        recount = engines.scan(self.pair, self.domain, bare)
        if recount.count("mismatched") == mismatched:
            return table, bounds, []
        note = (
            f"atol={bounds.atol:g} swallows outputs as small as these (rms {norms.reference:.3g}): "
            "mismatches are counted without it"
        )
        return recount, bare, [note]

    def _notes(self, table: Table, norms: judge.Norms, *, passed: bool) -> list[str]:
        notes = []
        if self.domain.rules == "id" and (different := table.count("different")):
            notes.append(
                f"{different} integers differ inside the bound; where they are indices, "
                "compare with rtol=0, atol=0"
            )
        if passed and (note := judge.undecided(norms, self.tolerance, self.domain.rules)):
            notes.append(note)
        if table.count("mismatched"):
            sides = {"reference": self.pair.a, "candidate": self.pair.b}
            notes += [note for name, side in sides.items() if (note := _no_bool(name, side))]
        return notes

    def _located(self, finding: Finding, table: Table, bounds: Bounds, show: int) -> Finding:
        found = locate(self.pair, self.domain, bounds, table, show)
        return dataclasses.replace(
            finding,
            worst=found.worst,
            shown=found.shown,
            pattern=pattern_of(found.indices, self.pair.unpacked_shape, finding.counts.mismatched),
        )


def _no_bool(name: str, side: torch.Tensor) -> str:
    """Of a bool tensor with bytes other than 0 and 1; empty where there are none."""
    if side.dtype != torch.bool or (byte := int(side.view(torch.uint8).amax())) <= 1:
        return ""
    return (
        f"the {name} is of bool and holds the byte {byte:#04x}, which is no boolean: it was not "
        "written, or not as bool"
    )


def _counts(table: Table, compared: int) -> Counts:
    names = (
        "mismatched",
        "gross",
        "nonfinite",
        "nan_reference",
        "nan_candidate",
        "inf_reference",
        "inf_candidate",
    )
    return Counts(compared, *map(table.count, names))
