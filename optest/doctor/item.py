"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass

# From harmless to harmful. ``unknown``: the system does not tell.
SEVERITIES = ("ok", "unknown", "note", "warning", "bad")


@dataclass(frozen=True)
class Item:
    """What was found, whether it harms timings, why, and what to do about it.

    Attributes:
        what: a few words: ``governor``.
        found: the value: ``powersave on 8 of 8 cores``.
        severity: one of ``SEVERITIES``; ``bad`` where timings cannot be trusted, ``warning`` where
            they move by more than noise, ``note`` where it is good to know.
        why: empty where it is fine.
        mend: empty where there is nothing to do.
    """

    what: str
    found: str
    severity: str = "ok"
    why: str = ""
    mend: str = ""


def unknown(what: str, source: str) -> Item:
    """For a source that is not there."""
    return Item(what, f"not told ({source})", "unknown")
