"""Text of others made fit for one line: of a terminal, a log, a table or a page."""

from __future__ import annotations

import re

# Terminals act on these, tabulate takes one for a rule, others break a line or cannot be encoded.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def escaped(text: str) -> str:
    """``text`` with its control characters, and what no encoding can hold, by their codes."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str, longest: int = 2000) -> str:
    """``text`` on one line: control characters by their codes, cut where it is too long."""
    line = escaped(" ".join(text[: 2 * longest].split()))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
