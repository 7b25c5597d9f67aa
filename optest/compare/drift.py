"""How far apart two runs of one version are, which no sample of either shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optest.compare import ranks, student
from optest.compare.padded import Floats, Samples

DRIFT = 0.015
_FEWEST = 3  # pairs, from which their scatter says something
_ENOUGH = 10  # pairs, from which it says all
_SPREAD = 2.0  # times the interquartile range: 1 % of unchanged pairs on a busy machine are beyond
_NORMAL_FROM = 200  # degrees of freedom


@dataclass(frozen=True)
class Drift:
    """What is allowed for.

    Attributes:
        known: standard deviation of each ratio's logarithm, or of all.
        scatter: the same, of what the ratios of this comparison themselves showed beyond that of
            their own noise.
        freedom: degrees of freedom of ``scatter``.
        common: median of the logarithms of all ratios.
    """

    known: Floats
    scatter: float
    freedom: int
    common: float

    @property
    def typical(self) -> float:
        """Of all of it, the median pair's standard deviation."""
        known = float(np.median(self.known)) if self.known.size else 0.0
        return math.hypot(known, self.scatter)

    def half_width(self) -> Floats:
        """Of a 95 % interval of the logarithm, where nothing else is unsure."""
        total = np.hypot(self.known, self.scatter)
        reach = {f: student.quantile(0.05, f) for f in {*self._freedom(total)} if f < _NORMAL_FROM}
        return np.asarray(total * [reach.get(f, student.Z95) for f in self._freedom(total)])

    def p(self, ratio: Floats, noise: Floats) -> Floats:
        """Two-sided, that each logarithm of a ratio is only noise and drift."""
        total = np.hypot(np.hypot(noise, self.known), self.scatter)
        score = np.nan_to_num(np.abs(ratio) / np.maximum(total, 1e-12))
        return np.array(
            [
                ranks.two_sided(z) if f >= _NORMAL_FROM else student.two_sided(z, f)
                for z, f in zip(score.tolist(), self._freedom(total), strict=True)
            ]
        )

    def _freedom(self, total: Floats) -> list[int]:
        """Degrees of freedom of each ``total``, in which ``scatter`` alone is estimated.

        Welch and Satterthwaite's.
        """
        if self.scatter == 0.0:
            return [_NORMAL_FROM] * len(total)
        whole = self.freedom * np.minimum(total / self.scatter, 1e3) ** 4
        most = np.minimum(whole, float(_NORMAL_FROM)).astype(np.int64)
        found: list[int] = most.tolist()
        return found


def given(drift: float, ratio: Floats) -> Drift:
    """Of measurements of which it is known."""
    return Drift(np.full(len(ratio), drift), 0.0, 1, _median(ratio))


def found(base: Sequence[Samples], head: Sequence[Samples], ratio: Floats, noise: Floats) -> Drift:
    """Of two runs of which only their samples are known.

    At least ``DRIFT``. From three pairs on their scatter about their median tells more (median
    absolute deviation, less what their own noise explains). Fewer than ten can be close to each
    other by chance: a run is then taken to differ from the next also by twice the interquartile
    range of its samples, which is what runs on a busy machine did.

    Args:
        base: samples of each measurement.
        head: the same of the other run.
        ratio: logarithms of the ratios of medians; NaN where there is none.
        noise: their standard deviations by the samples alone; infinite where not known.
    """
    common = _median(ratio)
    usable = np.isfinite(ratio) & np.isfinite(noise)
    count = int(np.count_nonzero(usable))
    known = np.full(len(ratio), DRIFT)
    if count < _ENOUGH:
        spreads = [_spread(*pair) for pair in zip(base, head, strict=True)]
        known = np.hypot(known, _SPREAD * np.array(spreads, float))
    if count < _FEWEST:
        return Drift(known, 0.0, 1, common)
    deviation = 1.4826 * float(np.median(np.abs(ratio[usable] - common)))
    own = float(np.median(noise[usable]))
    scatter = math.sqrt(max(0.0, deviation**2 - own**2))
    # By simulation of up to 50 pairs: with two fewer, 1.5 % of unchanged ones at most are called.
    return Drift(known, scatter, max(1, count - 2), common)


def _median(ratio: Floats) -> float:
    known = ratio[np.isfinite(ratio)]
    return float(np.median(known)) if known.size else 0.0


def _spread(*sides: Samples) -> float:
    """Interquartile range over the median, of the side where it is larger."""
    quartiles = [np.quantile(side, (0.25, 0.5, 0.75)) for side in sides if len(side)]
    spreads = [float((high - low) / middle) for low, middle, high in quartiles if middle > 0.0]
    return max(spreads, default=0.0)
