"""The rule for one element, exact and plain: every engine must agree with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.checking.table import GROSS_FACTOR

if TYPE_CHECKING:
    from optest.checking.table import Bounds

_INT64_MIN = -(2**63)
_EXACT = 2.0**62  # int64 holds every bound below


@dataclass(frozen=True)
class Values:
    """Decoded values of one stretch, flat.

    ``uint64`` says for reference and candidate whether an int64 holds the bits of a uint64.
    """

    a: torch.Tensor
    b: torch.Tensor
    uint64: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class Judged:
    """The rule applied to one stretch.

    Attributes:
        mismatch: outside the bound, or a NaN or Inf that the other side lacks.
        finite: both sides are finite.
        difference: |a - b|; meaningless where not ``finite``.
        magnitude: |a|.
        bound: atol + rtol * |a|.
    """

    mismatch: torch.Tensor
    finite: torch.Tensor
    difference: torch.Tensor
    magnitude: torch.Tensor
    bound: torch.Tensor

    def excess(self) -> torch.Tensor:
        """``|a-b| - |a|/2`` where the difference is above 16 bounds, -inf elsewhere."""
        far = self.finite & self.mismatch & (self.difference > self.bound * GROSS_FACTOR)
        excess = self.difference - self.magnitude * 0.5
        return excess.masked_fill_(~far, -torch.inf)


def apply(values: Values, bounds: Bounds) -> Judged:
    """Judge every element of a stretch."""
    if values.a.dtype == torch.int64:
        return _integers(values, bounds)
    a, b = values.a, values.b
    difference, magnitude = (a - b).abs(), a.abs()
    bound = magnitude * bounds.rtol + bounds.atol
    if math.isfinite(difference.amax()):  # then a and b are finite too; the usual case, cheaper
        finite = torch.ones(a.shape, dtype=torch.bool, device=a.device)
        return Judged(difference > bound, finite, difference, magnitude, bound)
    finite = torch.isfinite(a) & torch.isfinite(b)
    match = torch.where(finite, difference <= bound, a == b)
    if bounds.equal_nan:
        match |= torch.isnan(a) & torch.isnan(b)
    return Judged(~match, finite, difference, magnitude, bound)


def magnitude_of(values: Values) -> torch.Tensor:
    """|reference| of a stretch of integers, in fp64."""
    return _unsigned(values.a) if values.uint64[0] else values.a.double().abs()


def _integers(values: Values, bounds: Bounds) -> Judged:
    a, b, below = _as_ordered(values)
    magnitude = magnitude_of(values)
    wrapped = torch.where(a > b, a - b, b - a)
    difference = _unsigned(wrapped) + below
    bound = magnitude * bounds.rtol + bounds.atol
    exact = (wrapped >= 0) & (wrapped <= bound.clamp(max=_EXACT).floor().long())
    match = torch.where((bound < _EXACT) & (below == 0), exact, difference <= bound)
    finite = torch.ones_like(match)
    return Judged(~match, finite, difference, magnitude, bound)


def _as_ordered(values: Values) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Both sides as int64 in the order of their values, and how far one lies below zero.

    Differences of the results, taken modulo 2^64, are those of the values; where uint64 meets a
    signed integer, what the latter has below zero is cut off and returned apart.
    """
    a, b = values.a, values.b
    below = torch.zeros(a.shape, dtype=torch.float64, device=a.device)
    if not any(values.uint64):
        return a, b, below
    if not values.uint64[0]:
        below, a = -a.clamp(max=0).double(), a.clamp(min=0)
    if not values.uint64[1]:
        below, b = -b.clamp(max=0).double(), b.clamp(min=0)
    return a ^ _INT64_MIN, b ^ _INT64_MIN, below


def _unsigned(bits: torch.Tensor) -> torch.Tensor:
    """Int64 bits read as uint64, in fp64."""
    return torch.where(bits < 0, bits.double() + 2.0**64, bits.double())
