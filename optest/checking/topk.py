"""A comparator for the indices of a top-k: ties may come in any order, misses may not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from optest.checking import gate_engines
from optest.checking.allowance import indented, refused, unlike
from optest.checking.comparators import Detail
from optest.checking.domain import domain_of
from optest.checking.gate_look import place_of
from optest.checking.parameters import flag, whole
from optest.errors import UsageError
from optest.tensors import as_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optest.checking.comparators import Comparator

# Picks looked at together.
_PICKS = 1 << 18
# Of a tolerance, and of the largest difference between values at one rank: near ties stay below.
_TOLERANCES, _DIFFERENCES = 16, 4


def topk_pair_compare(
    vals_name: str, *, dim: int = -1, descending: bool = True, max_show: int = 10
) -> Comparator:
    """A comparator for the index output of a top-k, judged by the values beside it.

    Where all indices equal the golden's, nothing else is looked at. Where an index differs, the
    actual values must be in order against both neighbours along ``dim``, exactly: a legal tie
    keeps the order, a miss breaks it. As upstream. What upstream leaves out, and a kernel that
    writes sorted values beside any indices would pass, is checked too in rows that differ:

    - an index is picked once in a row (unless the golden itself repeats one there);
    - a negative index is padding: there are no more of them than in the golden's row, unless
      their value is the infinity that is never picked;
    - a picked index has the value that the golden gives it, or, where the golden did not pick it,
      none better than the golden's least. Values may differ by 16 tolerances of the run plus four
      times the largest difference between the row's values at one rank, so that near ties pass;
      rows whose golden values are not in order are not judged by this.

    How many candidates there were is not known to a comparator, so an index beyond the last of
    them is caught by its value only. Indices are compared as integers of any width; dtypes and
    shapes must be equal, of indices and of values.

    Args:
        vals_name: the output that holds the values, of the shape of the indices.
        dim: the dimension along which they are sorted.
        descending: False where the least come first.
        max_show: how many failing positions a failure shows.

    Returns:
        A comparator of the protocol in ``optest.checking.comparators``.

    Raises:
        UsageError: (a ``ValueError``) a parameter that can have no meaning.
    """
    if not isinstance(vals_name, str) or not vals_name:
        raise UsageError(f"vals_name={vals_name!r}: expected the name of the output of values.")
    return _TopkPair(
        vals_name, whole("dim", dim), flag("descending", descending), whole("max_show", max_show, 0)
    )


@dataclass(frozen=True)
class _TopkPair:
    vals_name: str
    dim: int
    descending: bool
    max_show: int

    __name__ = "topk_pair_compare"

    @torch.no_grad()
    def __call__(  # noqa: PLR0913 - the protocol
        self,
        actual: torch.Tensor,
        expected: torch.Tensor,
        *,
        actual_outputs: Mapping[str, torch.Tensor],
        expected_outputs: Mapping[str, torch.Tensor],
        inputs: Mapping[str, object],  # noqa: ARG002
        rtol: float,
        atol: float,
    ) -> tuple[bool, str]:
        if self.vals_name not in actual_outputs or self.vals_name not in expected_outputs:
            return refused(
                f"compare_fn misconfigured: vals_name='{self.vals_name}' is not among the outputs "
                f"(outputs={list(actual_outputs)}, golden={list(expected_outputs)})",
                expected.numel(),
            )
        values = actual_outputs[self.vals_name], expected_outputs[self.vals_name]
        if reason := self._refusal((actual, expected), values):
            return refused(f"topk_pair_compare fail: {reason}", expected.numel())
        if not actual.numel():
            return True, Detail("nothing to compare", mismatched=0, compared=0)
        found = _Failures(self.max_show)
        for picks in self._rows((actual, expected), values):
            found.add(picks, _failing(picks, self.descending, rtol, atol))
        if not found.count:
            return True, Detail("", mismatched=0, compared=actual.numel())
        order = "descending" if self.descending else "ascending"
        head = (
            f"top-k idx mismatch via '{self.vals_name}' (dim={self.dim} order={order}): "
            f"{found.count} position(s) that no tie explains"
        )
        text = indented(head, *found.lines())
        return False, Detail(text, mismatched=found.count, compared=actual.numel())

    def _refusal(
        self,
        indices: tuple[torch.Tensor, torch.Tensor],
        values: tuple[torch.Tensor, torch.Tensor],
    ) -> str:
        actual, expected = indices
        if reason := unlike(actual, expected):
            return reason
        if actual.is_floating_point() or actual.is_complex() or actual.dtype == torch.bool:
            return f"indices must have an integer dtype, got {actual.dtype}"
        if not -actual.ndim <= self.dim < actual.ndim:
            return f"dim={self.dim} out of range for indices of shape {tuple(actual.shape)}"
        if reason := unlike(*values):
            return f"vals '{self.vals_name}': {reason}"
        if values[0].shape != actual.shape:
            return (
                f"vals shape mismatch: '{self.vals_name}' has {tuple(values[0].shape)}, "
                f"the indices {tuple(actual.shape)}"
            )
        return "" if not values[0].is_complex() else f"vals '{self.vals_name}' are complex"

    def _rows(
        self,
        indices: tuple[torch.Tensor, torch.Tensor],
        values: tuple[torch.Tensor, torch.Tensor],
    ) -> Iterator[_Picks]:
        """The rows along ``dim`` that more than ties may set apart, some at a time."""
        actual = indices[0]
        dim = self.dim % actual.ndim
        sides = [s.to(actual.device).movedim(dim, -1) for s in (*indices, *values)]
        unlike = gate_engines.unlike_rows(
            (sides[0], sides[1]), (sides[2], sides[3]), self.descending
        )
        rows = _places(unlike)
        step = max(1, _PICKS // max(1, sides[0].shape[-1]))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            at = tuple(part[:, d].to(actual.device) for d in range(part.shape[1]))
            taken = [_comparable(side[at] if at else side.unsqueeze(0)) for side in sides]
            yield _Picks(part, dim, sides[2].dtype, *taken)


@dataclass(frozen=True)
class _Picks:
    """Rows of picks [rows, k]: where they are, indices and values in comparable dtypes."""

    leading: torch.Tensor
    dim: int
    stored: torch.dtype
    actual: torch.Tensor
    expected: torch.Tensor
    actual_values: torch.Tensor
    expected_values: torch.Tensor

    def place(self, row: int, rank: int) -> str:
        index = self.leading[row].tolist()
        return place_of((*index[: self.dim], rank, *index[self.dim :]))


def _places(flags: torch.Tensor) -> torch.Tensor:
    """``torch.nonzero`` by NumPy, which takes a tenth of the time where few of many are set."""
    if not flags.ndim:
        return torch.nonzero(flags)
    flat = np.flatnonzero(as_array(flags.view(torch.uint8)))
    return torch.from_numpy(np.stack(np.unravel_index(flat, flags.shape), axis=1))


def _comparable(side: torch.Tensor) -> torch.Tensor:
    compute = domain_of(side.dtype, side.dtype).compute
    if side.dtype == torch.uint64:
        return side.to(torch.float64)
    return side.to(compute)


def _failing(
    picks: _Picks, descending: bool, rtol: float, atol: float
) -> list[tuple[str, torch.Tensor]]:
    """Reasons with the positions [rows, k] that each refuses."""
    differs = picks.actual != picks.expected
    best = picks.actual_values if descending else -picks.actual_values
    golden = picks.expected_values if descending else -picks.expected_values
    noise = _noise(best, golden, picks.stored, rtol, atol)
    order = "descending" if descending else "ascending"
    return [
        (f"a_vals breaks {order} order", differs & ~_ordered(best)),
        ("picked twice", differs & _repeated(picks)),
        ("no index", differs & _unpadded(picks, best)),
        ("not the value of that index", differs & _inconsistent(picks, best, golden, noise)),
    ]


def _ordered(best: torch.Tensor) -> torch.Tensor:
    """Where a value is not above the one before it, nor below the one after."""
    fine = torch.ones_like(best, dtype=torch.bool)
    pairs = best[:, :-1] >= best[:, 1:]
    fine[:, 1:] &= pairs
    fine[:, :-1] &= pairs
    return fine & ~best.isnan()


def _repeated(picks: _Picks) -> torch.Tensor:
    """Picks that another one of the row repeats; none where the golden's row repeats one."""
    twice = _duplicates(picks.actual)
    return twice & ~_duplicates(picks.expected).any(1, keepdim=True)


def _duplicates(indices: torch.Tensor) -> torch.Tensor:
    ordered, places = indices.sort(dim=1, stable=True)
    same = (ordered[:, :-1] == ordered[:, 1:]) & (ordered[:, 1:] >= 0)
    marks = torch.zeros_like(indices, dtype=torch.bool)
    marks[:, 1:] |= same
    marks[:, :-1] |= same
    return torch.zeros_like(marks).scatter_(1, places, marks)


def _unpadded(picks: _Picks, best: torch.Tensor) -> torch.Tensor:
    """Negative indices in rows that hold more of them than the golden's, but for -inf values."""
    negative = picks.actual < 0
    more = negative.sum(1) > (picks.expected < 0).sum(1)
    return negative & more[:, None] & (best != -torch.inf)


def _noise(
    best: torch.Tensor, golden: torch.Tensor, stored: torch.dtype, rtol: float, atol: float
) -> torch.Tensor:
    """How far the values of one index may lie apart, [rows, k] in the dtype of the values."""
    apart = (best - golden).abs()
    apart = apart.masked_fill(~apart.isfinite(), 0) if apart.is_floating_point() else apart
    rounding = torch.finfo(stored).eps if stored.is_floating_point else 0.0
    size = golden.abs().double().nan_to_num(0.0, 0.0, 0.0)
    tolerance = _TOLERANCES * (atol + rtol * size) + _DIFFERENCES * rounding * size
    return tolerance + _DIFFERENCES * apart.amax(1, keepdim=True).double()


def _inconsistent(
    picks: _Picks, best: torch.Tensor, golden: torch.Tensor, noise: torch.Tensor
) -> torch.Tensor:
    """Picks whose value is not the golden's for that index, or better than its least."""
    ordered, places = picks.expected.sort(dim=1)
    at = torch.searchsorted(ordered, picks.actual).clamp(max=ordered.shape[1] - 1)
    known = ordered.gather(1, at) == picks.actual
    place = places.gather(1, at)
    theirs = golden.gather(1, place).double()
    slack = noise.gather(1, place)
    value = best.double()
    wrong = (value - theirs).abs() > slack  # NaN of equal infinities is no difference
    # Behind the golden's picks may lie padding, whose values say nothing of what was left out.
    least = golden.double().masked_fill(picks.expected < 0, torch.inf).min(1, keepdim=True)
    better = value > least.values + noise.gather(1, least.indices)
    sound = _ordered(golden).all(1, keepdim=True)
    return torch.where(known, wrong, better) & sound & (picks.actual >= 0)


class _Failures:
    """Positions that fail, the first of them with their lines."""

    def __init__(self, show: int) -> None:
        self.count = 0
        self._show = show
        self._lines: list[str] = []

    def add(self, picks: _Picks, reasons: list[tuple[str, torch.Tensor]]) -> None:
        failing = torch.zeros_like(picks.actual, dtype=torch.bool)
        for _, positions in reasons:
            failing |= positions
        self.count += int(failing.sum())
        for row, rank in torch.nonzero(failing)[: max(0, self._show - len(self._lines))].tolist():
            why = ", ".join(reason for reason, positions in reasons if positions[row, rank])
            low, high = max(0, rank - 1), rank + 2
            near = ", ".join(f"{float(v):.6g}" for v in picks.actual_values[row, low:high])
            self._lines.append(
                f"  {picks.place(row, rank)} actual_idx={int(picks.actual[row, rank])} "
                f"expected_idx={int(picks.expected[row, rank])} "
                f"actual_score={float(picks.actual_values[row, rank]):.6g} "
                f"actual_vals[{low}:{min(high, picks.actual.shape[1])}]=[{near}]: {why}"
            )

    def lines(self) -> list[str]:
        rest = self.count - len(self._lines)
        return [*self._lines, f"  ... and {rest} more"] if rest else self._lines
