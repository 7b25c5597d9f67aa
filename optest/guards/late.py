"""Results read at once and a little later."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from optest.guards.finding import Finding
from optest.tensors import differ, same_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

LATER_S = 0.005


def finding(outputs: Sequence[torch.Tensor]) -> Finding | None:
    """Whether what a call returned or wrote still changes after it has returned."""
    early = [tensor.detach().clone() for tensor in outputs]
    time.sleep(LATER_S)
    return changed(early, outputs)


def changed(early: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Finding | None:
    """Whether ``outputs`` differ from copies that were made as the call returned."""
    count = sum(map(differing_elements, early, outputs))
    return (
        running(f"{count} elements of its result changed after it had returned") if count else None
    )


def running(evidence: str) -> Finding:
    """Work of a call goes on after it has returned."""
    return Finding(
        "still running",
        evidence,
        "its time ends before its work does, and what is timed next is slowed by it",
    )


def differing_elements(a: torch.Tensor, b: torch.Tensor) -> int:
    """How many elements of two tensors differ in a bit; all where shapes or dtypes do."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return max(a.numel(), b.numel())
    if same_bytes(a, b):
        return 0
    return int(differ(a, b).sum())
