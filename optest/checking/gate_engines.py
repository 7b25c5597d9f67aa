"""Which engine walks a gate's pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.checking import gate_compiled, gate_plain

if TYPE_CHECKING:
    from optest.checking.gate import Gate, GateTable


def scan(gate: Gate) -> GateTable:
    """Walk a pair once, in compiled loops where they can, else in torch operations."""
    if gate_compiled.can_scan(gate):
        return gate_compiled.scan(gate)
    return gate_plain.scan(gate)
