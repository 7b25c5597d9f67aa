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


def unlike_rows(
    indices: tuple[torch.Tensor, torch.Tensor],
    values: tuple[torch.Tensor, torch.Tensor],
    descending: bool,
) -> torch.Tensor:
    """Bool on the CPU, of the shape but for the last dimension: rows whose indices differ.

    Without those that are quickly seen to differ by the order of ties alone, by ``values``.
    """
    if gate_compiled.can_scan(Gate.of(indices[1], indices[0], SameBits())):
        return gate_compiled.unlike_rows(indices, values, descending)
    return gate_plain.unequal_rows(*indices)
