"""Text of others made fit for a table, a page or a workflow's log; numbers as people read them."""

from __future__ import annotations

import math
import re

from optest.line import one_line

_LONGEST = 400  # characters of a reason or a name
_MARKUP = re.compile(r"([\\`*_\[\]>|~#!$])")
# Inside of what GitHub makes a link or a mention of by itself: @name, #12, GH-12, an address.
_CALLS = re.compile(r"(?i)(?<=@)|(?<=#)(?=\d)|(?<=\bgh)(?=-\d)|(?<=:)(?=//)|(?<=\bwww)(?=\.)")


def markdown(text: str) -> str:
    """``text`` as markdown shows it: no link, no HTML, no cell's end, and nobody is called."""
    line = one_line(text, _LONGEST).replace("&", "&amp;").replace("<", "&lt;")
    # Behind a backslash GitHub still takes it for a mention: a space of no width is put in.
    return _CALLS.sub("&#8203;", _MARKUP.sub(r"\\\1", line))


def code(text: str, longest: int = _LONGEST) -> str:
    """``text`` as a code span in a table, where nothing of it is markup; nothing for nothing."""
    line = one_line(text, longest).replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line else ""


def microseconds(value: float) -> str:
    """``12.3``; nothing where it is no number."""
    if math.isnan(value):
        return ""
    return f"{value:.0f}" if value >= 99999.5 else f"{value:.5g}"  # noqa: PLR2004 - five digits


def percent(ratio: float) -> str:
    """A ratio of times as a change: ``+7.3 %``, ``-12 %``, ``x 3.2`` from a doubling on."""
    if not math.isfinite(ratio):
        return ""
    if ratio >= 2.0:  # noqa: PLR2004 - where people say "twice"
        return f"x {ratio:.3g}"
    change = 100.0 * (ratio - 1.0)
    return f"{change:+.1f} %" if abs(change) < 9.95 else f"{change:+.0f} %"  # noqa: PLR2004


def interval(low: float, high: float) -> str:
    """``-1.2 % to +3.4 %``; ``not known`` where nothing can be said."""
    if not (low > 0.0 and math.isfinite(high)):
        return "not known"
    return f"{percent(low)} to {percent(high)}"


def counted(number: int, noun: str) -> str:
    """``1 case``, ``2 cases``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
