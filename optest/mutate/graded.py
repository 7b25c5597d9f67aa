"""Graded mutants: how small an error a check still sees."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.mutate.formats import DIGITS, is_packed

if TYPE_CHECKING:
    from optest.mutate.gross import Material, Mutant

_SHARES = (1.0, 0.25, 0.05, 0.01, 0.001, 0.0001)
_FINEST = 24
_WRONG_BY = 0.25
_FEWEST_DIGITS = 2
# Formats that have so many significant bits, the leading one included.
_FORMATS = {24: "fp32", 11: "fp16", 8: "bf16", 4: "e4m3", 3: "e5m2", 2: "fp4"}


@dataclass(frozen=True)
class Step:
    """One rung of a ladder: what to call it, how large an error it is, and the mutant."""

    name: str
    size: float
    mutant: Mutant


@dataclass(frozen=True)
class Ladder:
    """Errors of one kind, the largest first; ``steps`` makes them for an output.

    ``steps(dtype, n)``: for ``n`` elements of ``dtype``.
    """

    name: str
    steps: Callable[[torch.dtype, int], list[Step]]


def _scaled(factor: float, m: Material) -> torch.Tensor:
    return m.values.scaled(factor)


def _relative(dtype: torch.dtype, _elements: int) -> list[Step]:
    """Every element times 1 + 2^-k, as far down as the dtype can hold it."""
    finest = min(DIGITS.get(dtype, _FEWEST_DIGITS), _FINEST)
    return [
        Step(f"2^-{k}", 2.0**-k, functools.partial(_scaled, 1 + 2.0**-k)) for k in range(finest + 1)
    ]


def _some_wrong(count: int, m: Material) -> torch.Tensor:
    """So many elements off by a quarter, among those of the larger half first.

    A smaller count takes a part of what a larger one takes.
    """
    wrong = m.values.scaled(1 + _WRONG_BY).reshape(-1)
    right, magnitude = m.right.reshape(-1), m.magnitude.reshape(-1)
    order = torch.randperm(len(right), generator=torch.Generator().manual_seed(0))
    order = order.to(right.device)
    can = wrong != right
    # Those that an error of a quarter changes at all, and of them first the larger.
    rank = (~can).long() * 2 + (magnitude < magnitude.median()).long()
    order = order[rank[order].argsort(stable=True)]
    made = right.clone()
    made[order[:count]] = wrong[order[:count]]
    return made.reshape(m.right.shape)


def _share(_dtype: torch.dtype, elements: int) -> list[Step]:
    counts = dict.fromkeys(math.ceil(elements * share) for share in _SHARES)
    counts[1] = None
    return [
        Step(_share_name(count, elements), count / elements, functools.partial(_some_wrong, count))
        for count in sorted(counts, reverse=True)
    ]


def _share_name(count: int, elements: int) -> str:
    return f"one of {elements}" if count == 1 else f"{100 * count / elements:.3g} %"


def _rounded(digits: int, m: Material) -> torch.Tensor:
    return m.values.rounded(digits)


def _precision(dtype: torch.dtype, _elements: int) -> list[Step]:
    """Every element rounded to fewer significant bits than its dtype has."""
    own = 0 if is_packed(dtype) else min(DIGITS.get(dtype, 0), _FINEST + 1)
    return [
        Step(
            f"{digits} bits" + (f" ({_FORMATS[digits]})" if digits in _FORMATS else ""),
            2.0**-digits,
            functools.partial(_rounded, digits),
        )
        for digits in range(_FEWEST_DIGITS, own)
    ]


LADDERS = (
    Ladder("wrong share", _share),
    Ladder("relative error", _relative),
    Ladder("lower precision", _precision),
)
