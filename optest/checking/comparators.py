"""The hook for a check of one's own, in place of the element-wise one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from optest.checking.verdict import Counts, Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from optest.checking.tolerance import Tolerance


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


def judge_with(
    comparator: Comparator, reference: torch.Tensor, candidate: torch.Tensor, tolerance: Tolerance
) -> Verdict:
    """The comparator's word as a verdict: 0.0 or 1.0.

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
    finding = Finding(
        status="pass" if passed else "fail",
        reason=f"{label}: {detail}" if detail or not passed else "",
        counts=Counts(compared=reference.numel(), mismatched=0 if passed else reference.numel()),
        tolerance=tolerance,
        shape=tuple(reference.shape),
    )
    return Verdict(0.0 if passed else 1.0, finding)


def _is_answer(answer: object) -> bool:
    return (
        isinstance(answer, tuple)
        and len(answer) == 2  # noqa: PLR2004
        and isinstance(answer[0], bool)
        and isinstance(answer[1], str)
    )
