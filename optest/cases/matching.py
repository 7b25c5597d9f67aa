"""Filters on case ids, files and functions: two wild characters, all else literal."""

from __future__ import annotations

import re


def matcher(pattern: str) -> re.Pattern[str]:
    """A filter in which ``*`` and ``?`` are wild and brackets are literal; it matches in full."""
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(c) or re.escape(c) for c in pattern), re.DOTALL)
