"""Outputs held against the golden ones: by torch.allclose's rule, or by a comparator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.checking import Counts, Finding, Tolerance, Verdict, compare
from optest.checking.comparators import Context, ask
from optest.golden.stages import detail
from optest.log import logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optest.checking import Comparator, Element
    from optest.checking.verdict import Status

SHOWN = 20
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Pairs:
    """What is compared: the kernel's outputs and the golden ones by name, and the inputs."""

    actual: Mapping[str, torch.Tensor]
    expected: Mapping[str, torch.Tensor]
    inputs: Mapping[str, object]
    rtol: float
    atol: float

    def judge(self, name: str, comparator: Comparator | None) -> Verdict:
        """The verdict on one output, and a line about it on standard output; see ``verdict``."""
        verdict = self.verdict(name, comparator)
        detail(_line(name, self.actual[name], comparator, verdict))
        return verdict

    def verdict(self, name: str, comparator: Comparator | None) -> Verdict:
        """The verdict on one output.

        Raises:
            TypeError: the comparator returned something other than ``(bool, str)``.
        """
        if comparator is None:
            return allclose(self.actual[name], self.expected[name], self.rtol, self.atol)
        try:
            return self._by(comparator, name)
        except AssertionError as error:  # a comparator that asserts in place of answering
            return Verdict(1.0, Finding("fail", str(error) or "the comparator's assertion"))

    def _by(self, comparator: Comparator, name: str) -> Verdict:
        context = Context(
            actual_outputs=self.actual,
            expected_outputs=self.expected,
            inputs=self.inputs,
            rtol=self.rtol,
            atol=self.atol,
        )
        expected = self.expected[name]
        answer = ask(comparator, self.actual[name], expected, context, name)
        status: Status = "pass" if answer.passed else "fail"
        finding = Finding(status, answer.reason, answer.counts, shape=tuple(expected.shape))
        return Verdict(answer.value, finding)


def allclose(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> Verdict:
    """``|actual - expected| <= atol + rtol * |expected|`` everywhere, NaN equal to nothing.

    As torch.allclose has it, but computed in fp32 or wider. Integers are compared exactly and
    without ``rtol``, by which a large index might be off by more than one; booleans without both.
    """
    whole = not (expected.dtype.is_floating_point or expected.dtype.is_complex)
    if whole:
        rtol, atol = 0.0, 0.0 if expected.dtype == torch.bool else atol
    verdict = compare(expected, actual, Tolerance(rtol, atol, 0.0), show=SHOWN)
    if verdict.passed or not _within(actual, expected, rtol, atol):
        return verdict
    logger.warning("%s", verdict.reason)
    return Verdict(0.0, Finding("pass", counts=Counts(expected.numel()), notes=verdict.notes))


def _within(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> bool:
    """Whether every element is inside the bound although the pair failed as a whole.

    Only where atol swallows outputs as small as these: that rule is ours, not torch.allclose's.
    """
    floats = actual.dtype.is_floating_point and actual.dtype == expected.dtype
    if not floats or actual.shape != expected.shape:
        return False
    flat = actual.reshape(-1), expected.reshape(-1)
    starts = range(0, actual.numel(), _CHUNK)
    chunks = ([side[start : start + _CHUNK].double() for side in flat] for start in starts)
    return all(_all_close(a, e, rtol, atol) for a, e in chunks)


def _all_close(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> bool:
    """torch.allclose's rule; not that function, which a kernel can reach and replace."""
    bound = atol + rtol * expected.abs()
    near = ((actual - expected).abs() <= bound) & expected.isfinite()
    return bool((near | (actual == expected)).all())


def mismatch(wrong: Mapping[str, Verdict]) -> str:
    """The outputs that differ, and where, in upstream's words."""
    lines = [f"Output(s) does not match golden: {list(wrong)}"]
    for name, verdict in wrong.items():
        lines += [f"  {name}: {line}" for line in _words(verdict)]
    return "\n".join(lines)


def _line(name: str, actual: torch.Tensor, comparator: Comparator | None, verdict: Verdict) -> str:
    word = "PASS" if verdict.passed else "FAIL"
    label = "" if comparator is None else f" ({getattr(comparator, '__name__', 'custom')})"
    return f"{name!r} {word}  shape={tuple(actual.shape)} dtype={actual.dtype}{label}"


def _words(verdict: Verdict) -> list[str]:
    if not verdict.shown:
        return [verdict.reason]
    bound = f"rtol={verdict.tolerance.rtol:g} atol={verdict.tolerance.atol:g}"
    lines = [f"Mismatched elements: {verdict.mismatched}/{verdict.compared}  {bound}"]
    lines += [f"where: {verdict.pattern}"] if verdict.pattern else []
    return [*lines, *map(_element, verdict.shown[:SHOWN]), *(f"note: {n}" for n in verdict.notes)]


def _element(element: Element) -> str:
    index = ", ".join(map(str, element.index))
    return f"[{index}] actual={element.got:.8g} expected={element.want:.8g}"
