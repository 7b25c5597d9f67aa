"""A gate: how many elements of a pair are outside a rule, found in one pass over memory.

The pair is (expected, actual), the reference first. Rules judge finite elements; what is NaN or
infinite is counted apart, since no share forgives it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

from optest.checking import rule
from optest.checking.domain import Domain, domain_of
from optest.checking.pair import Pair
from optest.checking.rule import Values
from optest.checking.table import Bounds

COLUMNS = (
    "bad",
    "nan_actual",
    "inf_actual",
    "nan_expected",
    "inf_expected",
    "ignored",
    "worst",
    "changed",
)
_SMALLEST = 2.0**-14
_NO_ZERO = 1e-9
_EXACT = Bounds(0.0, 0.0)


@dataclass(frozen=True)
class Judged:
    """A rule applied to one stretch.

    Attributes:
        bad: outside the rule, among finite elements.
        finite: both sides are finite.
        difference: |a - e|.
        measure: what the rule holds against its threshold: |a - e|, or the relative difference.
    """

    bad: torch.Tensor
    finite: torch.Tensor
    difference: torch.Tensor
    measure: torch.Tensor


@dataclass(frozen=True)
class Allclose:
    """``|a - e| <= atol + rtol * |e|``, each operation rounded to the dtype of comparison."""

    atol: float
    rtol: float

    @property
    def numbers(self) -> tuple[float, float]:
        """What the compiled loops take."""
        return self.atol, self.rtol

    def judge(self, values: Values) -> Judged:
        """The rule, element by element."""
        found = rule.apply(values, Bounds(self.rtol, self.atol))
        bad = found.mismatch & found.finite
        return Judged(bad, found.finite, found.difference, found.difference)


@dataclass(frozen=True)
class RelativeDifference:
    """``d < threshold``, or ``d / (max(|a|, |e|, floor) + 1e-9) <= threshold``; d is ``|a - e|``.

    The floor is ``2^-14 / threshold``: differences below 2^-14 never count, however small the
    values are. The formula is that of ``data_compare`` in Ascend's cann-recipes-infer.
    """

    threshold: float

    @property
    def floor(self) -> float:
        """The least that a difference is divided by."""
        return _SMALLEST / self.threshold

    @property
    def numbers(self) -> tuple[float, float]:
        """What the compiled loops take."""
        return self.threshold, self.floor

    def judge(self, values: Values) -> Judged:
        """The rule, element by element."""
        found = rule.apply(values, _EXACT)
        size = torch.maximum(*magnitudes(values)).clamp(min=self.floor) + _NO_ZERO
        relative = found.difference / size
        apart = found.difference >= self.threshold
        bad = found.finite & apart & (relative > self.threshold)
        return Judged(bad, found.finite, found.difference, relative.where(apart, found.difference))


def magnitudes(values: Values) -> tuple[torch.Tensor, torch.Tensor]:
    """|e| and |a| in the dtype of differences."""
    swapped = Values(values.b, values.a, values.uint64[::-1])
    if values.a.dtype == torch.int64:
        return rule.magnitude_of(values), rule.magnitude_of(swapped)
    return values.a.abs(), values.b.abs()


@dataclass(frozen=True)
class SameBits:
    """Every bit of the stored element."""


Rule = Allclose | RelativeDifference | SameBits


@dataclass(frozen=True)
class Rows:
    """Which rows of a [rows, width] pair the rule judges; the others must be equal in every bit.

    ``mapped`` is uint8 [rows], on the pair's device.
    """

    mapped: torch.Tensor
    width: int


@dataclass(frozen=True)
class Gate:
    """A pair under a rule, with what is left out of it."""

    pair: Pair
    domain: Domain
    rule: Rule
    ignore_nan: bool = False
    rows: Rows | None = None

    @classmethod
    def of(
        cls, expected: torch.Tensor, actual: torch.Tensor, rule: Rule, *, ignore_nan: bool = False
    ) -> Gate:
        """A gate for two tensors of one shape and dtype, with at least one element."""
        domain = domain_of(expected.dtype, actual.dtype)
        return cls(Pair.of(expected, actual), domain, rule, ignore_nan)


@dataclass(frozen=True)
class GateTable:
    """One row for each block of ``block`` positions, columns as in ``COLUMNS``, fp64 on the CPU.

    All are counts but ``worst``: the largest |a - e| under ``Allclose``, the largest relative
    difference among bad elements under ``RelativeDifference``. ``ignored`` counts expected NaN that
    ``ignore_nan`` leaves out; no other column but ``changed`` sees those. ``changed`` counts stored
    elements that differ in a bit, where ``SameBits`` or ``Rows`` ask for that.
    """

    rows: torch.Tensor
    block: int

    def column(self, name: str) -> torch.Tensor:
        """One column, one entry a block."""
        return self.rows[:, COLUMNS.index(name)]

    @functools.cached_property
    def _sums(self) -> dict[str, float]:
        return dict(zip(COLUMNS, self.rows.sum(0).tolist(), strict=True))

    def count(self, name: str) -> int:
        """A column's sum, exact below 2^53."""
        return int(self._sums[name])

    @property
    def worst(self) -> float:
        """The largest entry of that column."""
        return float(self.column("worst").max())

    @property
    def illegal(self) -> int:
        """NaN and Inf on either side that nothing leaves out."""
        names = ("nan_actual", "inf_actual", "nan_expected", "inf_expected")
        return sum(self.count(name) for name in names)
