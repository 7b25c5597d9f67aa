"""``# noqa: OT101 reason``: which lines claim an exception from which rules, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from optest.lint.source import Source

_COMMENT = re.compile(r"#\s*noqa\s*:\s*(?P<rest>[^#]*)", re.IGNORECASE)
_CODES = re.compile(r"(?:[A-Z]+[0-9]+(?:\s*,\s*|\s+|$))+", re.IGNORECASE)
_OURS = re.compile(r"OT[0-9]+", re.IGNORECASE)


@dataclass(frozen=True)
class Noqa:
    """One comment that claims an exception.

    Attributes:
        line: counted from 1.
        column: of the comment, counted from 1.
        codes: of our rules, upper case; codes of other linters are theirs to read.
        reason: why, in the author's words; may be empty.
    """

    line: int
    column: int
    codes: tuple[str, ...]
    reason: str


def noqas(source: Source) -> list[Noqa]:
    """The comments of a file that name one of our codes."""
    found: list[Noqa] = []
    if "noqa" not in source.text.lower():
        return found  # finding comments takes as long as parsing
    for line, comment in source.comments().items():
        match = _COMMENT.search(comment)
        codes = _CODES.match(match["rest"].strip()) if match else None
        if match is None or codes is None:
            continue
        ours = tuple(code.upper() for code in _OURS.findall(codes[0]))
        if ours:
            reason = match["rest"].strip()[codes.end() :].strip(" -:;.,")
            column = source.lines[line - 1].rindex(comment) + match.start() + 1
            found.append(Noqa(line, column, ours, reason))
    return found
