"""Conversions between the units that optest prints. Times are microseconds throughout."""

from __future__ import annotations

NS_PER_US = 1_000
US_PER_MS = 1_000
_KIB = 1024


def format_bytes(nbytes: float) -> str:
    """``1536`` -> ``'1.5 KiB'``; whole numbers of bytes stay whole."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < _KIB:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KIB
    return f"{value:.1f} TiB"
