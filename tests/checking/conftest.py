"""The rules of a check once more, written element by element in Python, to judge the engines by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch


@dataclass
class Oracle:
    """Counts of a comparison; ``borderline`` where rounding may decide an element either way."""

    compared: int = 0
    mismatched: int = 0
    nonfinite: int = 0
    gross: int = 0
    nan_reference: int = 0
    nan_candidate: int = 0
    max_abs: float = 0.0
    borderline: bool = False
    status: str = ""


@pytest.fixture
def oracle():
    """A function: reference, candidate, tolerance -> ``Oracle``."""
    return _judge


def _judge(reference, candidate, tolerance):
    wants, gots = _numbers(reference), _numbers(candidate)
    exact = not reference.is_floating_point()
    finite_wants = [abs(w) for w in wants if math.isfinite(w)]
    rms = math.sqrt(math.fsum(w * w for w in finite_wants) / max(len(finite_wants), 1))
    found, square_a, square_d = Oracle(compared=len(wants)), 0.0, 0.0
    for want, got in zip(wants, gots, strict=True):
        found.nan_reference += math.isnan(want)
        found.nan_candidate += math.isnan(got)
        if math.isfinite(want):
            square_a += float(want) ** 2
        if not (math.isfinite(want) and math.isfinite(got)):
            both_nan = math.isnan(want) and math.isnan(got)
            match = (both_nan and tolerance.equal_nan) or want == got
            found.mismatched += not match
            found.nonfinite += not match
            continue
        off = abs(want - got)
        bound = tolerance.atol + tolerance.rtol * abs(want)
        square_d += float(off) ** 2
        found.max_abs = max(found.max_abs, float(off))
        found.mismatched += off > bound
        limit = max(16 * bound, abs(want) / 2 + rms / 4)
        if _rules(reference) == "real":
            found.gross += off > limit
            found.borderline |= _close(off, limit) and off != 0
        found.borderline |= not exact and _close(off, bound) and off != 0
    square = (square_a, square_d) if _rules(reference) != "id" else (0.0, 0.0)
    found.status = _status(found, rms, square, tolerance)
    return found


def _numbers(tensor):
    values = tensor.reshape(-1)
    if tensor.is_floating_point():
        values = values.to(torch.float64)
    return [int(v) if isinstance(v, bool) else v for v in values.tolist()]


def _rules(tensor):
    if tensor.dtype == torch.bool:
        return "mask"
    return "real" if tensor.is_floating_point() or tensor.dtype.itemsize == 1 else "id"


def _close(x, y):
    return abs(x - y) <= 1e-5 * max(abs(x), abs(y))


def _status(found, rms, square, tolerance):
    half, off = math.sqrt(square[0]) / 2, math.sqrt(square[1])
    norm = off > half and rms > 1e-6
    found.borderline |= (_close(off, half) and off > 0) or _close(rms, 1e-6)
    share = found.mismatched / found.compared
    capped = tolerance.max_abs_delta is not None and found.max_abs > tolerance.max_abs_delta
    if found.nonfinite or found.gross or norm or capped or share > tolerance.tol_err_ratio:
        return "fail"
    return "near" if found.mismatched else "pass"
