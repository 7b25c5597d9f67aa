"""What a comparison allows: one frozen record, refused where a value can have no meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

from optest.errors import UsageError


@dataclass(frozen=True)
class Tolerance:
    """The bound of one element, ``atol + rtol * |reference|``, and what the whole may hold.

    Attributes:
        rtol: relative part of the bound, scaled by the reference.
        atol: absolute part of the bound, in the units of the values.
        tol_err_ratio: share of near misses that is forgiven; exactly this share passes.
        max_abs_delta: no element may differ by more than this, whatever the ratio forgives.
        catastrophic_check: True adds a cap that scales with the peak of the reference: no
            element may differ by more than ``0.5 * max(peak, 1)``. None and False add nothing;
            the rule against gross errors holds in any case.
        equal_nan: NaN against NaN at the same place is a match.
        check_dtype: differing dtypes fail; False compares them in the wider one.

    Raises:
        UsageError: a value is negative, not a finite number, or a ratio outside 0 to 1.
    """

    rtol: float = 1e-2
    atol: float = 1e-2
    tol_err_ratio: float = 0.05
    max_abs_delta: float | None = field(default=None, kw_only=True)
    catastrophic_check: bool | None = field(default=None, kw_only=True)
    equal_nan: bool = field(default=False, kw_only=True)
    check_dtype: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "tol_err_ratio"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        if self.tol_err_ratio > 1:
            raise UsageError(
                f"tol_err_ratio={self.tol_err_ratio}: expected a share between 0 and 1 "
                "(0.05 forgives near misses in 5 % of the elements)."
            )
        if self.max_abs_delta is not None:
            delta = _number("max_abs_delta", self.max_abs_delta)
            object.__setattr__(self, "max_abs_delta", delta)
        for name in ("catastrophic_check", "equal_nan", "check_dtype"):
            value = getattr(self, name)
            if not (isinstance(value, bool) or (value is None and name == "catastrophic_check")):
                raise UsageError(f"{name}={value!r}: expected True or False.")

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-safe values."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Tolerance:
        """The inverse of ``to_dict``."""
        return cls(**record)


def _number(name: str, value: object) -> float:
    if type(value) is float and 0.0 <= value < math.inf:  # as nearly always
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{name}={value!r}: expected a finite number of at least 0.")
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise UsageError(f"{name}={value!r}: expected a finite number of at least 0.")
    return number
