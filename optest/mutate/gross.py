"""Gross mutants: what a wrong kernel leaves behind. Every check must reject each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from optest.mutate.formats import Values

_TILE = 64
_BLOCK = 128
_VECTOR = 8


@dataclass(frozen=True)
class Material:
    """What a mutant is made of: bits ``[r, c]`` of the elements that it may touch.

    Attributes:
        right: what the candidate wrote.
        before: what was there before the call; poison in fresh memory.
        stale: what the candidate wrote for other inputs; None where that has another shape.
        dtype: of the elements.
    """

    right: torch.Tensor
    before: torch.Tensor
    stale: torch.Tensor | None
    dtype: torch.dtype

    @property
    def values(self) -> Values:
        """The right elements, to calculate with."""
        return Values(self.right, self.dtype)

    @property
    def magnitude(self) -> torch.Tensor:
        """Absolute values ``[r, c]`` in float64; NaN and infinities count as zero."""
        decoded = self.values.decoded().abs().nan_to_num(0.0, 0.0, 0.0)
        return decoded.reshape(*self.right.shape, -1).amax(-1)


Mutant = Callable[[Material], "torch.Tensor | None"]


def _zeroed(m: Material) -> torch.Tensor:
    return torch.zeros_like(m.right)


def _last(m: Material, count: int) -> torch.Tensor:
    wrong = m.right.clone()
    wrong.reshape(-1)[-count:] = m.before.reshape(-1)[-count:]
    return wrong


def _half_written(m: Material) -> torch.Tensor | None:
    return _last(m, m.right.numel() // 2) if m.right.numel() > 1 else None


def _tail_unwritten(m: Material) -> torch.Tensor:
    """What is left of the last row behind whole blocks of 64, or a vector where nothing is."""
    return _last(m, m.right.shape[1] % _TILE or min(_VECTOR, m.right.numel()))


def _last_tile_unwritten(m: Material) -> torch.Tensor:
    """64 x 64; of a single row or column the last 128 elements."""
    if 1 in m.right.shape:
        return _last(m, min(_BLOCK, m.right.numel()))
    wrong = m.right.clone()
    wrong[-_TILE:, -_TILE:] = m.before[-_TILE:, -_TILE:]
    return wrong


def _rows_swapped(m: Material) -> torch.Tensor | None:
    if len(m.right) == 1:
        return None
    wrong = m.right.clone()
    wrong[[0, -1]] = m.right[[-1, 0]]
    return wrong


def _shifted(m: Material) -> torch.Tensor:
    return m.right.reshape(-1).roll(1).reshape(m.right.shape)


def _transposed(m: Material) -> torch.Tensor | None:
    return m.right.t().reshape(m.right.shape) if 1 not in m.right.shape else None


def _stale(m: Material) -> torch.Tensor | None:
    return m.stale


def _one(m: Material, wrong: torch.Tensor, at: int) -> torch.Tensor:
    """The right elements but for one: the first finite one from ``at`` on."""
    finite = m.values.decoded().isfinite().reshape(m.right.numel(), -1).all(1)
    places = finite.nonzero().squeeze(1)
    later = places[places >= at]
    place = int(later[0] if len(later) else places[-1] if len(places) else at)
    made = m.right.clone()
    made.reshape(-1)[place] = wrong.reshape(-1)[place]
    return made


def _one_nan(m: Material) -> torch.Tensor:
    return _one(m, m.values.not_a_number(), m.right.numel() // 2)


def _one_inf(m: Material) -> torch.Tensor:
    return _one(m, m.values.infinite(), m.right.numel() - 1)


def _sign_flipped(m: Material) -> torch.Tensor:
    return m.values.negated()


def _wrong_scale_row(m: Material) -> torch.Tensor:
    """The row of the largest values, doubled."""
    row = int(m.magnitude.sum(1).argmax())
    wrong = m.right.clone()
    wrong[row] = Values(m.right[row], m.dtype).scaled(2.0)
    return wrong


GROSS: dict[str, Mutant] = {
    "zeroed": _zeroed,
    "half written": _half_written,
    "tail unwritten": _tail_unwritten,
    "last tile unwritten": _last_tile_unwritten,
    "rows swapped": _rows_swapped,
    "shifted by one": _shifted,
    "transposed": _transposed,
    "stale": _stale,
    "one NaN": _one_nan,
    "one Inf": _one_inf,
    "sign flip": _sign_flipped,
    "wrong-scale row": _wrong_scale_row,
}
