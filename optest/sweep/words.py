"""Text of others made fit for a line of a terminal or a log."""

from __future__ import annotations

_MINUTE = 60  # seconds, and minutes of an hour
_BRIEF = 10  # seconds below which a fraction is worth reading


def after(text: str, head: str) -> str:
    """``text`` without ``head`` and a colon in front, which stands there already."""
    return text.removeprefix(f"{head}: ")


def duration(seconds: float) -> str:
    """``3.2 s``, ``45 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < _BRIEF:
        return f"{seconds:.1f} s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    minutes = round(seconds / _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
