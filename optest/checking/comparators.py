"""The hook for a check of one's own, in place of the element-wise one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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


def judge_with(
    comparator: Comparator, reference: torch.Tensor, candidate: torch.Tensor, tolerance: Tolerance
) -> Verdict:
    """The comparator's word as a verdict.

    Its value is the share of wrong elements where the comparator tells it (``Detail``), else 0.0
    or 1.0.

    Raises:
        TypeError: the comparator returned something other than ``(bool, str)``.
    """
    answer = comparator(
        candidate,
        reference,
        actual_outputs={"out": candidate},
        expected_outputs={"out": reference},
        inputs={},
        rtol=tolerance.rtol,
        atol=tolerance.atol,
    )
    label = getattr(comparator, "__name__", type(comparator).__name__)
    if not _is_answer(answer):
        raise TypeError(
            f"comparator {label} returned {answer!r}: expected (ok, detail), a bool and a str."
        )
    passed, detail = answer
    compared, mismatched = reference.numel(), 0 if passed else reference.numel()
    if isinstance(detail, Detail):
        compared, mismatched = detail.compared, detail.mismatched
    finding = Finding(
        status=_status(mismatched, passed=passed),
        reason=f"{label}: {detail.strip()}" if detail or not passed else label,
        counts=Counts(compared=compared, mismatched=mismatched),
        tolerance=tolerance,
        shape=tuple(reference.shape),
    )
    share = mismatched / compared if compared else 0.0
    # What failed for another reason than its share (a NaN, a tail) is no share of zero.
    return Verdict(share if passed or share else 1.0, finding)


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
