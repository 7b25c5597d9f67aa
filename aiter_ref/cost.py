"""What an operator costs at the least: arithmetic, and bytes that must cross the memory bus."""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """Of one call.

    Attributes:
        flops: floating-point (or integer) operations of the formula: an addition, a product, a
            comparison, a division, a root, an exponential each count as one; a multiply-add as two.
        nbytes: every input read once and every output written once, whatever a kernel does.
    """

    flops: int
    nbytes: int
