"""Which engine walks a pair: compiled loops, Triton, or plain torch operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.checking import fallback

if TYPE_CHECKING:
    from optest.checking.domain import Domain
    from optest.checking.pair import Pair
    from optest.checking.table import Bounds, Table


def scan(pair: Pair, domain: Domain, bounds: Bounds) -> Table:
    """Walk a pair once with the fastest engine that can."""
    return fallback.scan(pair, domain, bounds)
