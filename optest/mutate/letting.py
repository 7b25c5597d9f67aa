"""Which checks saw a mutant, and which let it through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.tensors import has_memory, same_bytes, storage_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from optest.cases.tamper import Compared
    from optest.checking import Verdict
    from optest.mutate.tampers import Mutation, Recorder, Target


def reached(right: Recorder, mutation: Mutation) -> list[int]:
    """Positions of the checks that were given other values than without the mutant."""
    pairs = zip(right.checks, mutation.checks, strict=False)
    return [at for at, (before, after) in enumerate(pairs) if _differs(before, after)]


def let_through(
    right: Recorder, mutation: Mutation, target: Target, known: Collection[int]
) -> list[str]:
    """The checks that were given the mutant and passed, in words.

    Where it reached none: those that look at the output, as others of its mutants have shown
    (``known``, positions) or its memory shows; where there are none either, that.
    """
    saw = reached(right, mutation)
    if saw:
        checks = [mutation.checks[at] for at in saw]
        return [f"{_words(check)}: {_found(check.verdict)}" for check in checks]
    memory = storage_of(right.calls[target.call].outputs[target.place].tensor)
    own = right.calls[target.call].checks
    looking = [
        check
        for at, check in enumerate(right.checks)
        if at in known
        or (any(check is each for each in own) and storage_of(check.candidate) == memory)
    ]
    if looking:
        return [f"{_words(check)} is not given what was mutated" for check in looking]
    return [f"no check compares {target.output}"]


def _differs(before: Compared, after: Compared) -> bool:
    # NaN differs from itself, but not in words.
    if repr(before.verdict.finding) != repr(after.verdict.finding):
        return True
    both = before.candidate, after.candidate
    return all(map(has_memory, both)) and not same_bytes(*both)


def allowed(check: Compared) -> str:
    """What a check allows."""
    tolerance = check.verdict.tolerance
    words = f"rtol={tolerance.rtol:g}, atol={tolerance.atol:g}"
    words += f", tol_err_ratio={tolerance.tol_err_ratio:g}"
    if tolerance.max_abs_delta is not None:
        words += f", max_abs_delta={tolerance.max_abs_delta:g}"
    return words + (", mask" if check.mask is not None else "")


def _words(check: Compared) -> str:
    name = repr(check.verdict.msg) if check.verdict.msg else "a check without msg"
    return f"{name} ({allowed(check)})"


def _found(verdict: Verdict) -> str:
    return f"{verdict.mismatched} of {verdict.compared} mismatched, max_abs {verdict.max_abs:.3g}"
