"""A comparator that measures how an output's errors are spread, before a tolerance is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import torch

from optest.checking import spread as spreads
from optest.checking.allowance import indented, refused, unlike
from optest.checking.comparators import Detail
from optest.checking.parameters import flag, number
from optest.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optest.checking.comparators import Comparator
    from optest.checking.spread import Spread

_THRESHOLDS = (1e-3, 3e-3, 5e-3, 1e-2, 3e-2, 5e-2)
_QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)
_MOST = 32


def error_distribution(
    diff_thds: Sequence[float] = _THRESHOLDS,
    quantiles: Sequence[float] = _QUANTILES,
    always_pass: bool = True,
) -> Comparator:
    """A comparator that prints how errors are spread, and passes.

    To standard output: ``||actual - expected|| / ||expected||`` (rel-L2), the cosine, the share of
    elements above each threshold by the rule of ``ratio_reldiff`` and the worst of them, and
    percentiles of the relative difference ``d / (max(|actual|, |expected|, 1e-6) + 1e-9)``, of d
    and of ``|expected|``, d being ``|actual - expected|``. Sums are fp64. NaN and Inf are counted,
    and left out of everything else.

    One pass in constant memory: percentiles come from counts of fp32 numbers by their upper 16
    bits, so each is off by less than 2^-7 of itself, and by far less where many elements share a
    bin, whose ranks are spread evenly over it; the largest, p100, is exact.

    Args:
        diff_thds: thresholds, each above 0, at most 32.
        quantiles: shares between 0 and 1.
        always_pass: False fails where the actual output holds a NaN or Inf; nothing else fails,
            but for another shape or dtype.

    Returns:
        A comparator of the protocol in ``optest.checking.comparators``.

    Raises:
        UsageError: (a ``ValueError``) a parameter that can have no meaning.
    """
    levels = _several("diff_thds", diff_thds)
    if len(levels) > _MOST:
        raise UsageError(f"diff_thds has {len(levels)} thresholds: expected at most {_MOST}.")
    wanted = _several("quantiles", quantiles)
    for level in levels:
        number("diff_thds", level, above=True)
    for quantile in wanted:
        if not 0 <= quantile <= 1:
            raise UsageError(f"quantiles={quantile!r}: expected shares between 0 and 1.")
    return _ErrorDistribution(levels, wanted, flag("always_pass", always_pass))


@dataclass(frozen=True)
class _ErrorDistribution:
    diff_thds: tuple[float, ...]
    quantiles: tuple[float, ...]
    always_pass: bool

    @property
    def __name__(self) -> str:
        return f"error_distribution(diff_thds={self.diff_thds})"

    @torch.no_grad()
    def __call__(  # noqa: PLR0913 - the protocol
        self,
        actual: torch.Tensor,
        expected: torch.Tensor,
        *,
        actual_outputs: Mapping[str, torch.Tensor],  # noqa: ARG002
        expected_outputs: Mapping[str, torch.Tensor],  # noqa: ARG002
        inputs: Mapping[str, object],  # noqa: ARG002
        rtol: float,  # noqa: ARG002
        atol: float,  # noqa: ARG002
    ) -> tuple[bool, str]:
        if reason := unlike(actual, expected):
            return refused(f"error_distribution fail: {reason}", expected.numel())
        if not actual.numel():
            return True, Detail("nothing to measure", mismatched=0, compared=0)
        found = spreads.measure(expected, actual, self.diff_thds)
        lines = self._lines(found)
        print("\n".join(lines))  # noqa: T201 - what upstream's does, and all that it is for
        if found.illegal and not self.always_pass and (found.nan_actual or found.inf_actual):
            text = indented(f"error_distribution fail: {found.illegal}")
            wrong = found.nan_actual + found.inf_actual
            return False, Detail(text, mismatched=wrong, compared=actual.numel())
        return True, Detail("; ".join(lines[:2] if found.illegal else lines[:1]),
                            mismatched=0, compared=found.values)  # fmt: skip

    def _lines(self, found: Spread) -> list[str]:
        lines = [f"illegal values: {found.illegal}, left out"] if found.illegal else []
        lines.append(
            f"rel-L2 = {found.relative_l2:.4%}  cosine = {found.cosine:.7f}  numel={found.values}"
        )
        for level in self.diff_thds:
            count, worst = found.above[level]
            portion = count / found.finite if found.finite else 0.0
            lines.append(f"  diff_thd={level:.0e}  frac>thd={portion:.4%}  worst={worst:.3g}")
        lines.append(self._percentiles("rel-diff", found, "relative"))
        lines.append(self._percentiles("abs-diff", found, "absolute"))
        lines.append(f"  |golden| mean={found.mean_magnitude:.4g}")
        lines.append(self._percentiles("|golden|", found, "expected"))
        return lines

    def _percentiles(self, label: str, found: Spread, side: str) -> str:
        if not found.finite:
            return f"  {label} percentiles: (no finite values)"
        values = (f"p{q * 100:g}={found.quantile(side, q):.3g}" for q in self.quantiles)
        return f"  {label} percentiles: {'  '.join(values)}"


def _several(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise UsageError(f"{name}={values!r}: expected several numbers.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
            raise UsageError(f"{name}={value!r}: expected numbers.")
    return tuple(float(value) for value in values)
