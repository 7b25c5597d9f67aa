"""The part of an output that counts: the first rows along an axis, with zeros behind them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from optest.checking import gate_compiled
from optest.checking.decode import decode_into
from optest.checking.domain import domain_of
from optest.checking.gate import Gate, SameBits
from optest.checking.pair import Pair
from optest.checking.parameters import whole
from optest.errors import UsageError

_PART = 1 << 20
# What torch counts itself.
_COUNTED = frozenset(
    {
        torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint8,
        torch.int16, torch.int32, torch.int64,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Narrowing:
    """Which rows are compared.

    Attributes:
        valid_rows: how many, from the first; None for all, 0 for none.
        valid_axis: along which axis; negative ones count from the last.
        zero_tail: the actual output must be zero behind them.

    Raises:
        UsageError: a value of another type, negative rows, or a tail without ``valid_rows``.
    """

    valid_rows: int | None = None
    valid_axis: int = 0
    zero_tail: bool = False

    def __post_init__(self) -> None:
        if self.valid_rows is not None:
            object.__setattr__(self, "valid_rows", whole("valid_rows", self.valid_rows, 0))
        object.__setattr__(self, "valid_axis", whole("valid_axis", self.valid_axis))
        if not isinstance(self.zero_tail, bool):
            raise UsageError(f"zero_tail={self.zero_tail!r}: expected True or False.")
        if self.zero_tail and self.valid_rows is None:
            raise UsageError("zero_tail=True says what lies behind valid_rows: give that too.")

    def refusal(self, actual: torch.Tensor) -> str:
        """Why the tensor cannot be narrowed so, or what its tail holds; empty where all is well."""
        if self.valid_rows is None:
            return ""
        if not -actual.ndim <= self.valid_axis < actual.ndim:
            return f"valid_axis={self.valid_axis} out of range for shape {tuple(actual.shape)}"
        size = actual.shape[self.valid_axis]
        if self.valid_rows > size:
            return (
                f"valid_rows={self.valid_rows} out of range for axis {self.valid_axis} of size "
                f"{size}"
            )
        if not self.zero_tail:
            return ""
        tail = actual.narrow(self.valid_axis, self.valid_rows, size - self.valid_rows)
        nonzero = count_nonzero(tail)
        return f"inactive tail contains {nonzero} nonzero values" if nonzero else ""

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The view that counts; ``refusal`` has found that it exists."""
        if self.valid_rows is None:
            return tensor
        return tensor.narrow(self.valid_axis, 0, self.valid_rows)


def count_nonzero(tensor: torch.Tensor) -> int:
    """Values that are not zero, NaN among them; in constant memory whatever the strides."""
    if not tensor.numel():
        return 0
    pair = Pair.of(tensor, tensor)
    size = min(_PART, pair.positions)
    zeros = torch.zeros(size, dtype=torch.uint8, device=tensor.device).repeat_interleave(
        tensor.dtype.itemsize
    ).view(tensor.dtype)  # fmt: skip
    total = 0
    for start in range(0, pair.positions, _PART):
        for _, view, _ in pair.rectangles(start, min(start + _PART, pair.positions)):
            same = Gate.of(zeros[: view.numel()].view(view.shape), view, SameBits())
            if gate_compiled.can_scan(same) and not gate_compiled.scan(same).count("changed"):
                continue
            total += _count(view, pair.pack)
    return total


def _count(stored: torch.Tensor, pack: int) -> int:
    if stored.dtype in _COUNTED:
        return int(torch.count_nonzero(stored))
    compute = domain_of(stored.dtype, stored.dtype).compute
    values = torch.empty(stored.numel() * pack, dtype=compute, device=stored.device)
    decode_into(stored, values)
    return int(torch.count_nonzero(values))
