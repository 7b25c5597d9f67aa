"""The hook for a check of one's own, in place of the element-wise one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypedDict

from optest.checking.verdict import Counts, Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from typing_extensions import Self

    from optest.checking.tolerance import Tolerance
    from optest.checking.verdict import Status


class Comparator(Protocol):
    """Judges one output; gets all outputs and inputs by name, since some rules need more than one.

    Returns whether the output is right, and a sentence that says why not (or how well).
    """

    def __call__(  # noqa: PLR0913 - the protocol that comparators of this field share
        self,
        actual: torch.Tensor,
        expected: torch.Tensor,
        *,
        actual_outputs: Mapping[str, torch.Tensor],
        expected_outputs: Mapping[str, torch.Tensor],
        inputs: Mapping[str, object],
        rtol: float,
        atol: float,
    ) -> tuple[bool, str]:
        """Judge ``actual``, the candidate's, against ``expected``, the reference."""
        ...


class Detail(str):
    """A comparator's sentence that also knows how many of how many elements it found wrong."""

    __slots__ = ("compared", "mismatched")

    compared: int
    mismatched: int

    def __new__(cls, text: str, *, mismatched: int, compared: int) -> Self:
        """The sentence with its counts."""
        detail = super().__new__(cls, text)
        detail.mismatched = mismatched
        detail.compared = compared
        return detail


class Context(TypedDict):
    """What a comparator is given besides the pair."""

    actual_outputs: Mapping[str, torch.Tensor]
    expected_outputs: Mapping[str, torch.Tensor]
    inputs: Mapping[str, object]
    rtol: float
    atol: float


@dataclass(frozen=True)
class Answer:
    """What a comparator said; the counts are its own where it tells them (``Detail``)."""

    label: str
    passed: bool
    words: str
    counts: Counts

    @property
    def reason(self) -> str:
        """Its words under its name; empty for one that is content and says nothing."""
        return f"{self.label}: {self.words.strip()}" if self.words or not self.passed else ""

    @property
    def value(self) -> float:
        """The share of wrong elements; what failed for another reason is no share of zero."""
        compared, mismatched = self.counts.compared, self.counts.mismatched
        share = mismatched / compared if compared else 0.0
        return share if self.passed or share else 1.0


def ask(
    comparator: Comparator,
    actual: torch.Tensor,
    expected: torch.Tensor,
    context: Context,
    output: str = "",
) -> Answer:
    """Call a comparator on a pair; ``output`` is how errors name it.

    Raises:
        TypeError: it returned something other than ``(bool, str)``.
    """
    answer = comparator(actual, expected, **context)
    label = getattr(comparator, "__name__", type(comparator).__name__)
    if not _is_answer(answer):
        place = f" for {output}" if output else ""
        raise TypeError(
            f"comparator {label} returned {answer!r}{place}: expected (ok, detail), a bool and a "
            "str."
        )
    passed, words = answer
    compared, mismatched = expected.numel(), 0 if passed else expected.numel()
    if isinstance(words, Detail):
        compared, mismatched = words.compared, words.mismatched
    return Answer(label, passed, words, Counts(compared=compared, mismatched=mismatched))


def judge_with(
    comparator: Comparator, reference: torch.Tensor, candidate: torch.Tensor, tolerance: Tolerance
) -> Verdict:
    """The comparator's word as a verdict.

    Its value is the share of wrong elements where the comparator tells it (``Detail``), else 0.0
    or 1.0.

    Raises:
        TypeError: the comparator returned something other than ``(bool, str)``.
    """
    context = Context(
        actual_outputs={"out": candidate},
        expected_outputs={"out": reference},
        inputs={},
        rtol=tolerance.rtol,
        atol=tolerance.atol,
    )
    answer = ask(comparator, candidate, reference, context)
    finding = Finding(
        status=_status(answer.counts.mismatched, passed=answer.passed),
        reason=answer.reason or answer.label,
        counts=answer.counts,
        tolerance=tolerance,
        shape=tuple(reference.shape),
    )
    return Verdict(answer.value, finding)


def _status(mismatched: int, *, passed: bool) -> Status:
    if not passed:
        return "fail"
    return "near" if mismatched else "pass"


def _is_answer(answer: object) -> bool:
    return (
        isinstance(answer, tuple)
        and len(answer) == 2  # noqa: PLR2004
        and isinstance(answer[0], bool)
        and isinstance(answer[1], str)
    )
