"""Comparators that forgive a bounded share of outliers: ``ratio_allclose``, ``ratio_reldiff``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optest.checking.allowance import Allowance, judge
from optest.checking.gate import Allclose, RelativeDifference
from optest.checking.narrowing import Narrowing
from optest.checking.parameters import flag, limit, number, share, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from optest.checking.comparators import Comparator


def ratio_allclose(  # noqa: PLR0913, PLR0917 - upstream's signature
    atol: float | None = None,
    rtol: float | None = None,
    max_error_ratio: float = 0.005,
    max_show: int = 10,
    valid_rows: int | None = None,
    valid_axis: int = 0,
    zero_tail: bool = False,
    ignore_nan: bool = False,
) -> Comparator:
    """A comparator: at most a share of the elements may miss ``atol + rtol * |expected|``.

    An element is bad where ``|actual - expected|`` is above that bound, in fp32 (fp64 for fp64,
    exact integers for integers); it passes where at most ``round(max_error_ratio * n)`` of n are.
    NaN and Inf on either side fail at any ratio. Counts are integers, so the ratio holds at any
    size; shapes are never broadcast, and dtypes and devices must be equal.

    Args:
        atol: absolute part of the bound; None takes that of the run.
        rtol: relative part of the bound; None takes that of the run, and 0 for integers and bool,
            which a run's tolerance for rounding errors says nothing about.
        max_error_ratio: share of bad elements that passes, 0 to 1.
        max_show: how many bad elements a failure shows.
        valid_rows: compare only the first rows along ``valid_axis``; none at all pass.
        valid_axis: the axis of ``valid_rows``.
        zero_tail: what lies behind ``valid_rows`` must be zero in the actual output.
        ignore_nan: leave out elements whose expected value is NaN, from the share as well; the
            actual one may be anything there. A golden of nothing but NaN fails.

    Returns:
        A comparator of the protocol in ``optest.checking.comparators``.

    Raises:
        UsageError: (a ``ValueError``) a parameter that can have no meaning.
    """
    rule = OfRun.of(atol, rtol)
    allowance = Allowance(
        "ratio_allclose",
        share("max_error_ratio", max_error_ratio),
        show=whole("max_show", max_show, 0),
    )
    narrowing = Narrowing(valid_rows, valid_axis, zero_tail)
    flag("ignore_nan", ignore_nan)
    words = f"{rule}, max_error_ratio={allowance.ratio}, {_narrowed(narrowing)}, "
    return _Ratio(rule, allowance, narrowing, f"{words}ignore_nan={ignore_nan}", ignore_nan)


def ratio_reldiff(  # noqa: PLR0913, PLR0917 - upstream's signature
    diff_thd: float = 0.01,
    pct_thd: float = 0.05,
    max_diff_hd: float = math.inf,
    max_show: int = 10,
    valid_rows: int | None = None,
    valid_axis: int = 0,
    zero_tail: bool = False,
) -> Comparator:
    """A comparator: at most a share of the elements may be off by more than a relative difference.

    With ``d = |actual - expected|`` the relative difference is d itself below ``diff_thd``, else
    ``d / (max(|actual|, |expected|, 2^-14 / diff_thd) + 1e-9)``. An element is bad where that is
    above ``diff_thd``; it passes where at most ``round(pct_thd * n)`` of n are, and the worst of
    them is below ``max_diff_hd``. NaN and Inf on either side fail at any ratio. The formula is that
    of ``data_compare`` in cann-recipes-infer. Arithmetic, shapes and dtypes as in
    ``ratio_allclose``.

    Args:
        diff_thd: relative difference above which an element is bad, above 0.
        pct_thd: share of bad elements that passes, 0 to 1.
        max_diff_hd: no bad element may reach this relative difference, above 0.
        max_show: how many bad elements a failure shows.
        valid_rows: as in ``ratio_allclose``.
        valid_axis: as in ``ratio_allclose``.
        zero_tail: as in ``ratio_allclose``.

    Returns:
        A comparator of the protocol in ``optest.checking.comparators``.

    Raises:
        UsageError: (a ``ValueError``) a parameter that can have no meaning.
    """
    rule = RelativeDifference(number("diff_thd", diff_thd, above=True))
    allowance = Allowance(
        "ratio_reldiff",
        share("pct_thd", pct_thd),
        limit("max_diff_hd", max_diff_hd),
        whole("max_show", max_show, 0),
    )
    narrowing = Narrowing(valid_rows, valid_axis, zero_tail)
    words = f"diff_thd={rule.threshold}, pct_thd={allowance.ratio}, max_diff_hd={allowance.cap}"
    return _Ratio(rule, allowance, narrowing, f"{words}, {_narrowed(narrowing)}")


@dataclass(frozen=True)
class _Ratio:
    rule: OfRun | RelativeDifference
    allowance: Allowance
    narrowing: Narrowing
    words: str
    ignore_nan: bool = False

    @property
    def __name__(self) -> str:
        return f"{self.allowance.kind}({self.words})"

    def __call__(  # noqa: PLR0913 - the protocol
        self,
        actual: torch.Tensor,
        expected: torch.Tensor,
        *,
        actual_outputs: Mapping[str, torch.Tensor],  # noqa: ARG002
        expected_outputs: Mapping[str, torch.Tensor],  # noqa: ARG002
        inputs: Mapping[str, object],  # noqa: ARG002
        rtol: float,
        atol: float,
    ) -> tuple[bool, str]:
        rule = rule_for(self.rule, expected, rtol=rtol, atol=atol)
        return judge(
            actual,
            expected,
            rule,
            self.allowance,
            narrowing=self.narrowing,
            ignore_nan=self.ignore_nan,
        )


@dataclass(frozen=True)
class OfRun:
    """``Allclose`` with the tolerances of the run where a comparator has none of its own."""

    atol: float | None
    rtol: float | None

    @classmethod
    def of(cls, atol: float | None, rtol: float | None) -> OfRun:
        """From a comparator's parameters.

        Raises:
            UsageError: one that can have no meaning.
        """
        for name, value in (("atol", atol), ("rtol", rtol)):
            if value is not None:
                number(name, value)
        return cls(atol, rtol)

    def __str__(self) -> str:
        return f"atol={self.atol}, rtol={self.rtol}"


def rule_for(
    rule: OfRun | RelativeDifference, expected: torch.Tensor, *, rtol: float, atol: float
) -> Allclose | RelativeDifference:
    """The rule of one call, with tolerances of the run, of which integers take no ``rtol``."""
    if isinstance(rule, RelativeDifference):
        return rule
    real = expected.is_floating_point() or expected.is_complex()
    inherited = rtol if real else 0.0
    own_atol, own_rtol = rule.atol, rule.rtol
    return Allclose(
        atol if own_atol is None else own_atol, inherited if own_rtol is None else own_rtol
    )


def _narrowed(narrowing: Narrowing) -> str:
    return (
        f"valid_rows={narrowing.valid_rows}, valid_axis={narrowing.valid_axis}, "
        f"zero_tail={narrowing.zero_tail}"
    )
