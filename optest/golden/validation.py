"""Golden outputs held against actual ones in one call, and the comparators to do it by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.checking.distribution import error_distribution
from optest.checking.pool import mapped_pool_ratio_allclose, mapped_pool_ratio_reldiff
from optest.checking.ratio import ratio_allclose, ratio_reldiff
from optest.checking.topk import topk_pair_compare
from optest.errors import CheckFailedError, UsageError
from optest.golden import judging

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from optest.checking.comparators import Comparator

__all__ = [
    "error_distribution",
    "mapped_pool_ratio_allclose",
    "mapped_pool_ratio_reldiff",
    "ratio_allclose",
    "ratio_reldiff",
    "topk_pair_compare",
    "validate_golden",
]


def validate_golden(  # noqa: PLR0913, PLR0917 - upstream's signature
    outputs: Mapping[str, torch.Tensor],
    golden: Mapping[str, torch.Tensor],
    rtol: float = 1e-5,
    atol: float = 1e-5,
    compare_fn: Mapping[str, Comparator] | None = None,
    inputs: Mapping[str, object] | None = None,
) -> None:
    """Hold every output against its golden one, and print a line for each.

    By torch.allclose's rule, ``|actual - expected| <= atol + rtol * |expected|``, NaN equal to
    nothing, or by the comparator that ``compare_fn`` names for it. Unlike torch.allclose it
    broadcasts no shape, and compares integers exactly but for ``atol``.

    Args:
        outputs: what the kernel wrote, by name.
        golden: what is right, by the same names; may hold more. Tensors on another device than
            the output are copied to it.
        rtol: relative part of the bound, also given to comparators.
        atol: absolute part of the bound, also given to comparators.
        compare_fn: comparators (``optest.checking.comparators``) by output name.
        inputs: what comparators may look at beside the outputs.

    Raises:
        CheckFailedError: (an ``AssertionError``) outputs do not match; the text names all of them.
        KeyError: the golden lacks an output.
        UsageError: (a ``ValueError``) ``compare_fn`` names no output, or a tolerance is negative.
    """
    comparators = dict(compare_fn or {})
    if unknown := [name for name in comparators if name not in outputs]:
        raise UsageError(f"compare_fn names {unknown}: expected outputs, of {list(outputs)}.")
    expected = {name: golden[name].to(actual.device) for name, actual in outputs.items()}
    pairs = judging.Pairs(outputs, {**golden, **expected}, inputs or {}, rtol, atol)
    wrong = {}
    for name in outputs:
        verdict = pairs.judge(name, comparators.get(name))
        if not verdict.passed:
            wrong[name] = verdict
    if wrong:
        raise CheckFailedError(judging.mismatch(wrong))
