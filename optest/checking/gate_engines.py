"""Which engine walks a gate's pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.checking import gate_compiled, gate_plain
from optest.checking.gate import Gate, SameBits

if TYPE_CHECKING:
    import torch

    from optest.checking.gate import GateTable


def scan(gate: Gate) -> GateTable:
    """Walk a pair once, in compiled loops where they can, else in torch operations."""
    if gate_compiled.can_scan(gate):
        return gate_compiled.scan(gate)
    return gate_plain.scan(gate)


def unequal_rows(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Bool on the CPU, of the shape but for the last dimension: rows that differ in a bit."""
    if gate_compiled.can_scan(Gate.of(expected, actual, SameBits())):
        return gate_compiled.unequal_rows(actual, expected)
    return gate_plain.unequal_rows(actual, expected)


def unlike_rows(
    indices: tuple[torch.Tensor, torch.Tensor],
    values: tuple[torch.Tensor, torch.Tensor],
    descending: bool,
) -> torch.Tensor:
    """``unequal_rows`` of indices, without rows that are quickly seen to differ by ties alone."""
    if gate_compiled.can_scan(Gate.of(indices[1], indices[0], SameBits())):
        return gate_compiled.unlike_rows(indices, values, descending)
    return gate_plain.unequal_rows(*indices)
