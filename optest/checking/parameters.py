"""Parameters of comparators, refused where a value can have no meaning."""

from __future__ import annotations

import math
import operator
from numbers import Real

from optest.errors import UsageError


def number(name: str, value: object, *, above: bool = False) -> float:
    """``value`` as a finite float of at least 0, or above it.

    Raises:
        UsageError: it is none.
    """
    wanted = "a finite number above 0" if above else "a finite number of at least 0"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{name}={value!r}: expected {wanted}.")
    found = float(value)
    if not math.isfinite(found) or found < 0 or (above and not found):
        raise UsageError(f"{name}={value!r}: expected {wanted}.")
    return found


def share(name: str, value: object) -> float:
    """``value`` as a float between 0 and 1.

    Raises:
        UsageError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise UsageError(f"{name}={value!r}: expected a share between 0 and 1.")
    return float(value)


def limit(name: str, value: object) -> float:
    """``value`` as a float above 0, infinity for none.

    Raises:
        UsageError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) > 0:
        raise UsageError(f"{name}={value!r}: expected a number above 0, or math.inf for none.")
    return float(value)


def flag(name: str, value: object) -> bool:
    """``value`` where it is a bool.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(value, bool):
        raise UsageError(f"{name}={value!r}: expected True or False.")
    return value


def whole(name: str, value: object, least: int | None = None) -> int:
    """``value`` as an int.

    Raises:
        UsageError: it is none, or below ``least``.
    """
    wanted = "an integer" if least is None else f"an integer of at least {least}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"{name}={value!r}: expected {wanted}.") from None
    if isinstance(value, bool) or (least is not None and number < least):
        raise UsageError(f"{name}={value!r}: expected {wanted}.")
    return number
