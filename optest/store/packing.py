"""Samples of a timing as bytes: a store may hold a million measures."""

from __future__ import annotations

import array
import math
import sys

_WIDE, _NARROW = b"d", b"f"


def packed(samples: object) -> bytes | None:
    """Little-endian floats behind a byte that says how wide; None for what is no list of floats.

    Four bytes a sample where that loses nothing, else eight.
    """
    if not isinstance(samples, list) or not samples:
        return None
    if {*map(type, samples)} != {float} or not all(map(math.isfinite, samples)):
        return None
    wide = array.array("d", samples)
    narrow = array.array("f", samples)
    if narrow.tolist() == samples:
        return _NARROW + _little(narrow)
    return _WIDE + _little(wide)


def unpacked(data: bytes) -> list[float]:
    """The list that ``packed`` was given.

    Raises:
        ValueError: the bytes are not what ``packed`` writes.
    """
    width = data[:1]
    if width not in {_WIDE, _NARROW}:
        raise ValueError(f"samples that begin with {width!r}: expected {_WIDE!r} or {_NARROW!r}")
    samples: array.array[float] = array.array("d" if width == _WIDE else "f")
    samples.frombytes(data[1:])
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tolist()


def _little(samples: array.array[float]) -> bytes:
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()
