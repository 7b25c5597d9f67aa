"""The pass of a gate in compiled loops: csrc/gates.cpp."""

from __future__ import annotations

import functools
from typing import Any

import torch

from optest import native, settings
from optest.checking.gate import COLUMNS, Allclose, Gate, GateTable, RelativeDifference, SameBits
from optest.checking.table import block_of

FLOATS = frozenset({torch.float32, torch.bfloat16, torch.float16})
_CODES = {Allclose: 0, RelativeDifference: 1, SameBits: 2}
_LARGEST_ELEMENT = 8


def can_scan(gate: Gate) -> bool:
    """Whether the compiled loops read this pair: fp32, bf16 or fp16 on the CPU, or bits of any."""
    a, b = gate.pair.a, gate.pair.b
    if a.device.type != "cpu" or a.dtype != b.dtype or a.is_neg() or b.is_neg():
        return False
    if isinstance(gate.rule, SameBits):
        readable = a.dtype.itemsize <= _LARGEST_ELEMENT and not a.dtype.is_complex
    else:
        readable = a.dtype in FLOATS
    return readable and operators() is not None


def scan(gate: Gate) -> GateTable:
    """One row for each block, as ``GateTable`` describes."""
    block = block_of(gate.pair.positions)
    mapped = None
    if gate.rows is not None:
        block = gate.rows.width * max(1, block // gate.rows.width)
        mapped = gate.rows.mapped
    blocks = -(-gate.pair.positions // block)
    rows = torch.empty((blocks, len(COLUMNS)), dtype=torch.float64, device="cpu")
    first, second = (0.0, 0.0) if isinstance(gate.rule, SameBits) else gate.rule.numbers
    code = _CODES[type(gate.rule)]
    found = operators()
    assert found is not None
    found.gate_scan(
        gate.pair.b, gate.pair.a, code, first, second, gate.ignore_nan, mapped, block, rows
    )
    return GateTable(rows, block)


def unequal_rows(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """bool, of the shape but for the last dimension: rows that differ in a bit.

    For pairs of which ``can_scan`` has said that their bits can be read.
    """
    return _flags(actual.shape[:-1], actual, expected, None, None, True)


def unlike_rows(
    indices: tuple[torch.Tensor, torch.Tensor],
    values: tuple[torch.Tensor, torch.Tensor],
    descending: bool,
) -> torch.Tensor:
    """``unequal_rows`` of picks [rows..., k], without rows that only ties set apart.

    Such a row holds the golden's indices, each beside the golden's value for it, in order. Rows
    that it cannot read stay: values of other dtypes than fp32, bf16 and fp16, rows that no view
    makes two-dimensional.
    """
    if values[0].dtype not in FLOATS or any(side.is_neg() for side in values):
        return unequal_rows(*indices)
    try:
        flat = [side.view(-1, side.shape[-1]) for side in (*indices, *values)]
    except RuntimeError:  # torch's, of strides that cannot be joined
        return unequal_rows(*indices)
    return _flags(indices[0].shape[:-1], *flat, descending)


def _flags(shape: torch.Size, *operands: object) -> torch.Tensor:
    found = operators()
    assert found is not None
    flags = torch.empty(shape, dtype=torch.uint8, device="cpu")
    found.gate_rows(*operands, flags)
    return flags.view(torch.bool)


def operators() -> Any:  # noqa: ANN401 - torch types its operators no better
    """Those of csrc/gates.cpp, or None where they cannot be had."""
    return _loaded(settings.get_str("OPTEST_NATIVE"))


@functools.lru_cache(maxsize=2)
def _loaded(_setting: str) -> Any:  # noqa: ANN401
    """Asked once, a failing build included."""
    return native.csrc_or_none("gates", "comparators fall back to torch operations")
