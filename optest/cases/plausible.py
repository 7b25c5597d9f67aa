"""Rates that no machine reaches: the formula or the timing behind them is wrong."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from optest import arch
from optest.log import once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Generous on purpose, so that only nonsense is flagged. A core does at most 4096 operations a cycle
# (AMX int8: 16 x 16 x 64 multiply-adds in 16 cycles, two operations each, doubled for headroom),
# moves at most 192 bytes a cycle (two 64-byte loads and a store from the first-level cache), and
# runs below 6 GHz. No single card reaches 100 PFLOPS or 100 TB/s.
_CORE_TFLOPS = 4096 * 6e9 / 1e12
_CORE_TBYTES = 192 * 6e9 / 1e12
_CARD = 1e5, 100.0


@functools.cache
def ceilings() -> tuple[float, float]:
    """TFLOPS and TB/s that the device of this process cannot exceed."""
    if arch.get_gfx_runtime() != "cpu":
        return _CARD
    cores = arch.get_cu_num()
    return cores * _CORE_TFLOPS, cores * _CORE_TBYTES


def flag(name: str, rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Warn of rates above the ceiling, and of infinite ones; returns what was said."""
    said = []
    for row in rows:
        for column, value in row.items():
            ceiling = _ceiling(str(column))
            if ceiling and isinstance(value, float) and value > ceiling:
                said.append(
                    f"{name}: {column} = {value:.6g} is more than this machine can do "
                    f"(at most {ceiling:.3g}): the formula or the timing is wrong"
                )
    for message in said:
        once(message)
    return said


def _ceiling(column: str) -> float | None:
    most_tflops, most_tbytes = ceilings()
    if column.endswith("TFLOPS"):
        return most_tflops
    return most_tbytes if column.endswith("TB/s") else None
