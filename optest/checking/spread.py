"""How the errors of a pair are spread: sums, counts above thresholds, and counts by size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.checking import gate_compiled
from optest.checking.domain import domain_of
from optest.checking.gate import RelativeDifference, magnitudes
from optest.checking.pair import Pair
from optest.checking.reader import BlockReader
from optest.checking.rule import Values

if TYPE_CHECKING:
    from collections.abc import Sequence

# A bin for each bf16 number that is not negative: the upper 16 bits of a fp32 pattern.
BINS = 1 << 15
_SHIFT = 16
_SIDES = ("absolute", "relative", "expected")
_COUNTS = ("finite", "nan_actual", "inf_actual", "nan_expected", "inf_expected")
_SUMS = ("difference", "expected", "actual", "product", "magnitude")
_SMALLEST, _NO_ZERO = 1e-6, 1e-9
_BLOCK = 1 << 16
_GPU_BLOCK = 1 << 22


@dataclass(frozen=True)
class _Room:
    """What a pass adds to.

    Attributes:
        levels: fp32 [2, n] in ascending order: thresholds, and the floors of their denominators.
        bins: int64 [3, BINS], rows as in ``_SIDES``.
        counts: int64 [1, 5], as in ``_COUNTS``.
        numbers: fp64 [1, 8]: sums as in ``_SUMS``, then the largest of each side.
        above: fp64 [n, 2]: how many are above each threshold, and the worst.
    """

    levels: torch.Tensor
    bins: torch.Tensor
    counts: torch.Tensor
    numbers: torch.Tensor
    above: torch.Tensor

    @classmethod
    def of(cls, thresholds: Sequence[float]) -> _Room:
        floors = [RelativeDifference(threshold).floor for threshold in thresholds]
        return cls(
            torch.tensor([list(thresholds), floors], dtype=torch.float32, device="cpu"),
            torch.zeros((3, BINS), dtype=torch.int64, device="cpu"),
            torch.zeros((1, len(_COUNTS)), dtype=torch.int64, device="cpu"),
            torch.zeros((1, len(_SUMS) + len(_SIDES)), dtype=torch.float64, device="cpu"),
            torch.zeros((len(thresholds), 2), dtype=torch.float64, device="cpu"),
        )


@dataclass(frozen=True)
class Spread:
    """What was found; everything but the counts of NaN and Inf is of elements finite on both sides.

    Attributes:
        values: elements of the pair.
        finite: those that are finite on both sides.
        above: for each threshold how many elements are above it, and the worst relative difference.
    """

    values: int
    finite: int
    nan_actual: int
    inf_actual: int
    nan_expected: int
    inf_expected: int
    above: dict[float, tuple[int, float]]
    relative_l2: float
    cosine: float
    mean_magnitude: float
    bins: dict[str, torch.Tensor]
    largest: dict[str, float]

    @property
    def illegal(self) -> str:
        """NaN and Inf in words; empty where there are none."""
        if self.finite == self.values:
            return ""
        return (
            f"actual: NaN={self.nan_actual} Inf={self.inf_actual}; "
            f"expected: NaN={self.nan_expected} Inf={self.inf_expected}"
        )

    def quantile(self, side: str, q: float) -> float:
        """Of ``absolute``, ``relative`` or ``expected``: between the values about rank q (n - 1).

        Each is off by less than a bin's width, 2^-7 of itself; the largest is exact.
        """
        rank = q * (self.finite - 1)
        low = self._ranked(side, math.floor(rank))
        return low + (rank - math.floor(rank)) * (self._ranked(side, math.ceil(rank)) - low)

    def _ranked(self, side: str, rank: int) -> float:
        """The value of a rank, those of a bin spread evenly over it."""
        if rank == self.finite - 1:
            return self.largest[side]
        upto = self.bins[side].cumsum(0)
        at = int(torch.searchsorted(upto, torch.tensor([rank]), right=True))
        low, high = _edges(at)
        if not at:  # zero, and what fp32 has below 2^-133
            return low
        inside = int(self.bins[side][at])
        part = (rank - (int(upto[at]) - inside) + 0.5) / inside
        return low + part * (min(high, self.largest[side]) - low)


def _edges(number: int) -> tuple[float, float]:
    pattern = torch.tensor([number << _SHIFT, (number + 1) << _SHIFT], dtype=torch.int32)
    low, high = pattern.view(torch.float32).tolist()
    return low, high


def measure(expected: torch.Tensor, actual: torch.Tensor, thresholds: Sequence[float]) -> Spread:
    """Walk a pair once; two tensors of one shape, dtype and device, with at least one element."""
    pair = Pair.of(expected, actual)
    levels = sorted(set(thresholds))
    room = _Room.of(levels)
    if _can_run_compiled(pair):
        operators = gate_compiled.operators()
        operators.gate_spread(
            pair.b, pair.a, room.levels, room.bins, room.counts, room.numbers, room.above
        )
    else:
        _plain(pair, levels, room)
    return _spread_of(room, pair.values, levels)


def _can_run_compiled(pair: Pair) -> bool:
    a, b = pair.a, pair.b
    if a.device.type != "cpu" or a.dtype not in gate_compiled.FLOATS or a.is_neg() or b.is_neg():
        return False
    return gate_compiled.operators() is not None


def _spread_of(room: _Room, values: int, levels: Sequence[float]) -> Spread:
    counts = dict(zip(_COUNTS, room.counts[0].tolist(), strict=True))
    numbers = room.numbers[0].tolist()
    sums = dict(zip(_SUMS, numbers, strict=False))
    norms = math.sqrt(sums["actual"]) * math.sqrt(sums["expected"])
    rows = zip(levels, room.above.tolist(), strict=True)
    return Spread(
        values=values,
        **counts,
        above={level: (int(count), worst) for level, (count, worst) in rows},
        relative_l2=_over(math.sqrt(sums["difference"]), math.sqrt(sums["expected"])),
        cosine=sums["product"] / norms if norms else float(sums["difference"] == 0),
        mean_magnitude=sums["magnitude"] / max(counts["finite"], 1),
        bins=dict(zip(_SIDES, room.bins, strict=True)),
        largest=dict(zip(_SIDES, numbers[len(_SUMS) :], strict=True)),
    )


def _over(part: float, whole: float) -> float:
    if whole:
        return part / whole
    return math.inf if part else 0.0


# ---- in plain torch operations -------------------------------------------------------------------


def _plain(pair: Pair, levels: Sequence[float], room: _Room) -> None:
    domain = domain_of(pair.a.dtype, pair.b.dtype)
    block = _BLOCK if pair.a.device.type == "cpu" else _GPU_BLOCK
    reader = BlockReader(pair, domain, block)
    for start in range(0, pair.positions, block):
        _add(reader.read(start, min(start + block, pair.positions)), levels, room)


def _add(values: Values, levels: Sequence[float], room: _Room) -> None:
    a, b = values.a, values.b
    finite = torch.isfinite(a) & torch.isfinite(b)
    counts = (finite, b.isnan(), b.isinf(), a.isnan(), a.isinf())
    room.counts[0] += torch.stack([count.sum() for count in counts]).cpu()
    if not bool(finite.all()):
        values = Values(a[finite], b[finite], values.uint64)
    if not values.a.numel():
        return
    sides = _sizes(values)
    for row, name in enumerate(_SIDES):
        room.bins[row] += torch.bincount(_bin_of(sides[name]), minlength=BINS).cpu()
    sums = _sums(values, sides)
    room.numbers[0, : len(_SUMS)] += torch.stack(sums).cpu()
    largest = torch.stack([sides[name].max().double() for name in _SIDES]).cpu()
    room.numbers[0, len(_SUMS) :] = torch.maximum(room.numbers[0, len(_SUMS) :], largest)
    for row, level in enumerate(levels):
        judged = RelativeDifference(level).judge(values)
        worst = judged.measure.masked_fill(~judged.bad, 0).max().double().cpu()
        room.above[row, 0] += judged.bad.sum().cpu()
        room.above[row, 1] = torch.maximum(room.above[row, 1], worst)


def _sizes(values: Values) -> dict[str, torch.Tensor]:
    """Of every element: |a - e|, the relative difference, |e|; fp32, fp64 where compared so."""
    difference = RelativeDifference(1.0).judge(values).difference
    expected, actual = magnitudes(values)
    size = torch.maximum(expected, actual).clamp(min=_SMALLEST) + _NO_ZERO
    return {
        "absolute": difference,
        "relative": difference / size,
        "expected": expected,
    }


def _sums(values: Values, sides: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    a = _wide(values.a, unsigned=values.uint64[0])
    b = _wide(values.b, unsigned=values.uint64[1])
    product = (a * b.conj()).real if a.is_complex() else a * b
    return (
        (a - b).abs().square().sum(),
        a.abs().square().sum(),
        b.abs().square().sum(),
        product.sum(),
        sides["expected"].double().sum(),
    )


def _wide(side: torch.Tensor, *, unsigned: bool) -> torch.Tensor:
    if side.is_complex():
        return side.to(torch.complex128)
    wide = side.double()
    return torch.where(side < 0, wide + 2.0**64, wide) if unsigned else wide


def _bin_of(sizes: torch.Tensor) -> torch.Tensor:
    return sizes.float().view(torch.int32) >> _SHIFT
