"""Which checks let a mutant through."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optest.cases.tamper import Compared
    from optest.checking import Verdict
    from optest.mutate.tampers import Mutation, Recorder, Target


def let_through(right: Recorder, mutation: Mutation, target: Target) -> list[str]:
    """The checks that saw something of the mutant and passed, in words.

    A check that found other numbers than without the mutant has seen it. Where none did, those that
    look at the output; where none does, that.
    """
    pairs = zip(right.checks, mutation.checks, strict=False)
    saw = [after for before, after in pairs if _differs(before.verdict, after.verdict)]
    if saw:
        return [_words(check) + f" saw {_found(check.verdict)}" for check in saw]
    looked = right.looking_at(target)
    if looked:
        return [_words(check) + " saw no difference" for check in looked]
    return [f"no check compares {target.output!r}"]


def _differs(before: Verdict, after: Verdict) -> bool:
    return repr(before.finding) != repr(after.finding)  # NaN differs from itself, not in words


def _words(check: Compared) -> str:
    verdict = check.verdict
    allowed = verdict.tolerance
    name = repr(verdict.msg) if verdict.msg else "a check without msg"
    words = f"{name} (rtol={allowed.rtol:g}, atol={allowed.atol:g}, "
    words += f"tol_err_ratio={allowed.tol_err_ratio:g}"
    if allowed.max_abs_delta is not None:
        words += f", max_abs_delta={allowed.max_abs_delta:g}"
    return words + (", mask)" if check.mask is not None else ")")


def _found(verdict: Verdict) -> str:
    return f"{verdict.mismatched} of {verdict.compared} mismatched, max_abs {verdict.max_abs:.3g}"
