"""``assert_allclose``: KernelFoundry's comparison, with what it lets through refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from optest.cases import ending, saved
from optest.cases import session as sessions
from optest.checking import Tolerance, Verdict, compare
from optest.errors import CheckFailedError, UsageError
from optest.testing import relative
from optest.testing.arrays import as_tensor
from optest.testing.relative import all_close_with_slack, cosine_similarity

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["all_close_with_slack", "assert_allclose", "cosine_similarity"]

_HEAD = "Arrays are not equal within tolerance."
_EPSILON, _RTOL = 1e-7, 0.01

# One step of the format for what is rounded once; for the wide formats, whose results are sums in
# an order of the kernel's own, the rounding of some thousand terms.
_STEP = {
    "float64": 2.0**-44,
    "float32": 2.0**-18,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e4m3fnuz": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float8_e5m2fnuz": 2.0**-2,
}


def assert_allclose(  # noqa: PLR0913 - upstream's signature and two words of ours
    actual: object,
    expected: object,
    *,
    epsilon: float = _EPSILON,
    rtol: float = _RTOL,
    ratio_below_max_err: float = 0.99,
    msg: str | Callable[[str], str] | None = None,
    err_stats: bool = True,
    tolerances: str = "relative",
    equal_nan: bool = False,
) -> None:
    """Raise unless the kernel's result is the expected one.

    More than ``ratio_below_max_err`` of the elements must differ by less than ``rtol`` of
    ``|expected| + epsilon`` (at a ratio of 1, all). The ratio forgives near misses only. It never
    forgives another shape, a NaN or Inf where the other side has none, an element off by more than
    16 bounds and by more than ``|expected|/2 + rms/4``, or a result that as a whole is off by half
    of what was expected, as one of zeros is.

    A failure is recorded with the session too: a test that swallows the exception fails all the
    same. Where a check is meant to fail, put it inside ``optest.expect_failure()``.

    Args:
        actual: what the kernel gave: a torch tensor of any dtype, a NumPy array, or a number.
        expected: the reference's, of the same shape; nothing is broadcast. The dtype may differ
            and the device too: values are compared in the wider dtype (fp32 at least) where
            ``actual`` is.
        epsilon: keeps the bound of elements near zero above zero.
        rtol: relative bound of one element; 0 asks for equality.
        ratio_below_max_err: share of elements inside the bound that must be exceeded.
        msg: put before the message, or a function that gets the message and returns another.
        err_stats: False leaves the counts and differences out of the message.
        tolerances: ``"relative"`` for the rule above; ``"dtype"`` takes bound and floor from the
            coarser of the two dtypes, ``step * (|expected| + rms(expected))``, and compares
            integers and bools for equality. ``rtol`` and ``epsilon`` are not given then.
        equal_nan: NaN in both at one place is a match.

    Raises:
        AssertionError: (``CheckFailedError``) they differ.
        TypeError: a value is no tensor, array or number.
        ValueError: a tolerance that has no meaning.
    """
    __tracebackhide__ = True
    share = _share(ratio_below_max_err)
    got, want = _pair(actual, expected)
    if tolerances == "dtype":
        if (epsilon, rtol) != (_EPSILON, _RTOL):
            raise UsageError('tolerances="dtype" has bounds of its own: leave out rtol and epsilon')
        rtol, atol = _bounds_of(got, want)
    elif tolerances == "relative":
        atol = rtol * epsilon
    else:
        raise UsageError(f'tolerances={tolerances!r}: expected "relative" or "dtype"')
    missed = relative.allowed_mismatches(want.numel(), share) / max(want.numel(), 1)
    tolerance = Tolerance(rtol, atol, missed, equal_nan=equal_nan, check_dtype=False)
    verdict = compare(want, got, tolerance, show=1)
    message = "" if verdict.passed else _message(verdict, got, want, epsilon if err_stats else None)
    _record(verdict, message, got, want)
    if message:
        raise CheckFailedError(_worded(message, msg))


def _share(ratio: float) -> float:
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 <= ratio <= 1:
        raise UsageError(f"ratio_below_max_err={ratio!r}: expected a share from 0 to 1")
    return float(ratio)


def _pair(actual: object, expected: object) -> tuple[torch.Tensor, torch.Tensor]:
    try:
        got, want = as_tensor("actual", actual), as_tensor("expected", expected)
    except TypeError as error:
        # Noted, because a test that catches it would otherwise go on as if it had checked.
        sessions.current().note_failure(str(error))
        ending.install()
        raise
    return got, want.to(got.device)


def _bounds_of(got: torch.Tensor, want: torch.Tensor) -> tuple[float, float]:
    """Relative and absolute bound by the coarser dtype; zero for integers."""
    names = [str(tensor.dtype).removeprefix("torch.") for tensor in (got, want)]
    steps = [_STEP[name] for name in names if name in _STEP]
    if not steps:
        return 0.0, 0.0
    magnitude = want.to(relative.computed_in(want)).abs().double()
    finite = torch.nan_to_num(magnitude, 0.0, 0.0, 0.0)
    rms = float(finite.norm()) / math.sqrt(max(finite.numel(), 1))
    return max(steps), max(steps) * rms


def _message(verdict: Verdict, got: torch.Tensor, want: torch.Tensor, epsilon: float | None) -> str:
    """What is wrong and, where ``epsilon`` is given, by how much."""
    lines = [_HEAD, verdict.reason]
    if epsilon is None or got.shape != want.shape or not verdict.compared:
        return "\n".join(lines)
    share = 100 * verdict.mismatched / verdict.compared
    absolute, relative_ = relative.greatest(got, want, epsilon)
    lines += [
        f"Mismatched elements: {verdict.mismatched} / {verdict.compared} ({share:.1f}%)",
        f"Greatest absolute difference: {absolute:.15e}",
        f"Greatest relative difference: {relative_:.15e}",
    ]
    lines += [f"Where: {verdict.pattern}"] if verdict.pattern else []
    if worst := verdict.worst:
        index = ", ".join(map(str, worst.index))
        lines.append(f"Worst: [{index}] is {worst.got!s}, expected {worst.want!s}")
    return "\n".join(lines)


def _worded(message: str, msg: str | Callable[[str], str] | None) -> str:
    if msg is None:
        return message
    return f"{msg}\n{message}" if isinstance(msg, str) else msg(message)


def _record(verdict: Verdict, message: str, got: torch.Tensor, want: torch.Tensor) -> None:
    session = sessions.current()
    session.note_check(verdict, message)
    if message:
        ending.install()
        saved.save_pair(session, "assert_allclose", want, got)
