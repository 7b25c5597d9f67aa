"""``checkAllclose`` and ``assertAllclose``: compare, log, and tell the session."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch

from optest.cases import declared, ending, saved
from optest.cases import session as sessions
from optest.cases.tamper import Compared
from optest.checking import Tolerance, Verdict, compare, describe
from optest.log import logger
from optest.timing.phases import phase

if TYPE_CHECKING:
    from collections.abc import Callable

_LEVEL = {"pass": logging.INFO, "near": logging.WARNING, "fail": logging.ERROR}


def checkAllclose(  # noqa: N802, PLR0913, PLR0917 - upstream's name and signature
    a: torch.Tensor,
    b: torch.Tensor,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    tol_err_ratio: float = 0.05,
    msg: str = "",
    printNum: int = 8,  # noqa: N803
    printLog: bool = True,  # noqa: N803
    max_abs_delta: float | None = None,
    catastrophic_check: bool | None = None,
    equal_nan: bool = False,
    check_dtype: bool = True,
    mask: torch.Tensor | None = None,
    comparator: Callable[..., tuple[bool, str]] | None = None,
) -> Verdict:
    """Compare a candidate with the reference; a failure makes the process exit 1.

    Args:
        a: the reference, any shape and dtype; it scales the tolerance.
        b: the candidate's result, of the same shape, dtype and device.
        rtol: relative part of the bound ``atol + rtol * |a|``.
        atol: absolute part of the bound.
        tol_err_ratio: share of near misses that still passes; exactly this share passes.
        msg: what is compared, for the log.
        printNum: how many mismatches to show.
        printLog: False logs nothing; the verdict is recorded all the same.
        max_abs_delta: no element may differ by more, whatever the ratio.
        catastrophic_check: True also refuses a difference above half the reference's peak.
        equal_nan: NaN in both at the same place counts as equal.
        check_dtype: False compares different dtypes in the wider of the two.
        mask: compare only where it is True (broadcast to the shape of ``a``).
        comparator: replaces the element rule: ``(actual, expected, *, …) -> (ok, detail)``.

    Returns:
        Share of mismatched elements as a ``Verdict`` (a float): 0 when all match, 1.0 when the
        shapes differ.

    Raises:
        TypeError: ``a`` or ``b`` is no dense tensor.
        UsageError: a tolerance that is negative or NaN.
    """
    tolerance = Tolerance(
        rtol=rtol,
        atol=atol,
        tol_err_ratio=tol_err_ratio,
        max_abs_delta=max_abs_delta,
        catastrophic_check=catastrophic_check,
        equal_nan=equal_nan,
        check_dtype=check_dtype,
    )
    session = sessions.current()
    if session.guards == "full" and session.case is not None and isinstance(a, torch.Tensor):
        session.case.references |= declared.references_to(a)
    whole = b
    if mask is not None:
        a, b = _masked(a, b, mask)
    try:
        with phase("check"):
            verdict = compare(a, b, tolerance, comparator=comparator, show=printNum).with_msg(msg)
    except TypeError as error:
        # Noted, because a script that catches it would otherwise go on as if it had checked.
        session.note_failure(f"{msg}: {error}" if msg else str(error))
        ending.install()
        raise
    if session.tamper is not None:
        session.tamper.compared(Compared(verdict, whole, mask))
    _record(verdict, msg, log=printLog)
    if not verdict.passed:
        saved.save_pair(session, msg, a, b)
    return verdict


def assertAllclose(  # noqa: N802 - named after checkAllclose
    a: torch.Tensor,
    b: torch.Tensor,
    **options: Any,  # noqa: ANN401 - those of checkAllclose
) -> Verdict:
    """``checkAllclose`` that raises where the check fails; takes the same options.

    Raises:
        CheckFailedError: (an ``AssertionError``) the check failed; the message says where.
    """
    verdict = checkAllclose(a, b, **options)
    verdict.raise_if_failed()
    return verdict


def _masked(
    a: torch.Tensor, b: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    # Tensors of unlike shape go on to the comparison unmasked: it names both shapes.
    if a.shape != b.shape:
        return a, b
    kept = mask.to(a.device, torch.bool).broadcast_to(a.shape)
    return a[kept], b[kept.to(b.device)]


def _record(verdict: Verdict, msg: str, *, log: bool) -> None:
    session = sessions.current()
    if log:
        expected = bool(session.expecting_failure) and not verdict.passed
        level = logging.INFO if expected else _LEVEL[verdict.status]
        words = describe(verdict, msg)
        logger.log(level, "%s", f"(expected) {words}" if expected else words)
    session.note_check(verdict, f"{msg}: {verdict.reason}" if msg else verdict.reason)
    if not verdict.passed:
        ending.install()
