"""Which engine walks a pair: compiled loops, a Triton kernel, or plain torch operations."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from optest.checking import fallback, native
from optest.log import once

if TYPE_CHECKING:
    from optest.checking.domain import Domain
    from optest.checking.pair import Pair
    from optest.checking.table import Bounds, Table


def scan(pair: Pair, domain: Domain, bounds: Bounds) -> Table:
    """Walk a pair once with the fastest engine that can; all of them count alike."""
    device = pair.a.device.type
    if device == "cpu":
        table = _compiled(pair, bounds)
    elif device == "cuda":
        table = _on_gpu(pair, domain, bounds)
    else:
        table = None
    return fallback.scan(pair, domain, bounds) if table is None else table


def _compiled(pair: Pair, bounds: Bounds) -> Table | None:
    if not native.can_scan(pair):
        return None
    return native.scan(pair, bounds)


def _on_gpu(pair: Pair, domain: Domain, bounds: Bounds) -> Table | None:
    if not _has_triton():
        once("triton is missing: comparisons on the GPU run in torch operations", logging.INFO)
        return None
    from optest.checking import triton_compare

    if not triton_compare.can_scan(pair, domain):
        return None
    return triton_compare.scan(pair, domain, bounds)


@functools.lru_cache(maxsize=1)
def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
