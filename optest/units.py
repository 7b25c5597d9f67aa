"""Conversions between the units that optest prints. Times are microseconds throughout."""

from __future__ import annotations

NS_PER_US = 1_000
US_PER_MS = 1_000
US_PER_S = 1_000_000
_KIB = 1024


def ns_to_us(ns: float) -> float:
    """Nanoseconds to microseconds."""
    return ns / NS_PER_US


def s_to_us(seconds: float) -> float:
    """Seconds to microseconds."""
    return seconds * US_PER_S


def tflops(flops: float, us: float) -> float:
    """Floating-point operations done in ``us`` microseconds, as 10^12 operations a second."""
    return flops / us / 1e6


def tbytes_per_s(nbytes: float, us: float) -> float:
    """Bytes moved in ``us`` microseconds, as 10^12 bytes a second."""
    return nbytes / us / 1e6


def format_bytes(nbytes: float) -> str:
    """``1536`` -> ``'1.5 KiB'``; whole numbers of bytes stay whole."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < _KIB:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KIB
    return f"{value:.1f} TiB"


def format_us(us: float) -> str:
    """A duration in microseconds for people: ``'12.3 us'``, ``'4.5 ms'``, ``'1.20 s'``."""
    if us < US_PER_MS:
        return f"{us:.1f} us"
    if us < US_PER_S:
        return f"{us / US_PER_MS:.1f} ms"
    return f"{us / US_PER_S:.2f} s"
