"""Ceilings as a markdown table, beside what the maker says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from optest.peaks import published
from optest.units import format_bytes

if TYPE_CHECKING:
    from optest.store.records import Ceiling, Peaks

_TERA, _GIGA = 1e12, 1e9


def markdown(peaks: Peaks) -> str:
    """A heading line and the table."""
    from tabulate import tabulate

    card = published.of(peaks.place)
    rows = [_row(each, card) for each in peaks.ceilings]
    place = peaks.place
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(peaks.measured))
    words = f"{_text(place.device or 'unknown device')} ({_text(place.gfx)}), measured {when}"
    if card is not None:
        words += f"; published: {card.source}"
    table = tabulate(
        rows,
        headers="keys",
        tablefmt="pipe",
        disable_numparse=True,
        colalign=["left", "left", "right", "right", "right", "right", "right"],
    )
    return f"{words}\n\n{table}\n"


def _row(ceiling: Ceiling, card: published.Published | None) -> dict[str, str]:
    told = None if card is None else published.value_of(card, ceiling)
    return {
        "what": ceiling.kind,
        "of": _text(ceiling.name),
        "threads": str(ceiling.threads) if ceiling.threads else "",
        "bytes": format_bytes(ceiling.nbytes) if ceiling.nbytes else "",
        "measured": shown(ceiling, ceiling.value),
        "published": "" if told is None else shown(ceiling, told),
        "share": "" if not told else f"{ceiling.value / told:.0%}",
    }


def shown(ceiling: Ceiling, value: float) -> str:
    """A value with its unit: ``12.4 GB/s``, ``1.31 PFLOPS`` as ``1310 TFLOPS``, ``0.75 us``."""
    if ceiling.kind == "launch":
        return f"{value:.3g} us"
    if ceiling.kind == "matrix":
        unit = "TOPS" if ceiling.name.startswith("int") else "TFLOPS"
        return f"{_figures(value / _TERA)} {unit}"
    if value >= _TERA:
        return f"{_figures(value / _TERA)} TB/s"
    return f"{_figures(value / _GIGA)} GB/s"


def _figures(value: float) -> str:
    """Three figures, and no exponent."""
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3  # noqa: PLR2004
    return f"{value:.{decimals}f}"


def _text(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")
