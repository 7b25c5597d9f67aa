"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from optest.errors import UsageError

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{p}{i}": 1024**n for n, p in enumerate("kmgt", 1) for i in ("", "i", "ib")},
    **{f"{p}b": 1000**n for n, p in enumerate("kmgt", 1)},
}


def nbytes(option: str, text: str) -> int:
    """``4GiB``, ``4G``, ``512MiB``, ``4GB`` (of 1000) or a plain number, in bytes.

    Raises:
        UsageError: it is none of these, or nothing.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    unit = _UNITS.get(match[2].lower()) if match else None
    size = int(float(match[1]) * unit) if match and unit else 0
    if not size:
        raise UsageError(f"{option} {text!r}: expected an amount of memory, as 4GiB or 512MiB")
    return size
