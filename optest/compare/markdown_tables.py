"""Pipe tables out of a log, a comment or a page. What is in doubt is refused, with its line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from optest.errors import UsageError

_RULE = re.compile(r":?-+:?")
_CELLS = re.compile(r"(?:\\.|[^\\|]|\\$)*")
_ENDS = re.compile(r"\r\n?|\n")
_QUOTED = re.compile(r"^[\s>]*")
_SUMMARY = re.compile(r"(?:.*[\])>:] )?(?P<title>.+?) summary \(markdown\):")
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.+?)\s*#*")


@dataclass(frozen=True)
class Table:
    """A table as it was written.

    Attributes:
        title: of the line above it; empty where that is none.
        line: number of its head, from 1.
        columns: its head.
        rows: the number of each row's line, and its cells, as many as there are columns.
    """

    title: str
    line: int
    columns: Sequence[str]
    rows: Sequence[tuple[int, Sequence[str]]]


def tables(name: str, text: str) -> list[Table]:
    """Every table in ``text``, which may hold anything beside them.

    Args:
        name: of the file, for messages.
        text: with lines of any ending; quoted (``> ``) and indented tables are read too.

    Raises:
        UsageError: a row has more cells than its head, or ends before its last one does; a column
            is there twice; a table has no rows.
    """
    # Lines as editors number them: U+2028 and the like are letters of a cell.
    lines = [_QUOTED.sub("", line.rstrip()) for line in _ENDS.split(text)]
    found, at = [], 0
    while at + 1 < len(lines):
        columns = _cells(lines[at])
        if len(columns) > 0 and _is_rule(lines[at + 1], len(columns)):
            table = _table(name, lines, at, columns)
            found.append(table)
            at += 2 + len(table.rows)
        else:
            at += 1
    return found


def _table(name: str, lines: Sequence[str], head: int, columns: Sequence[str]) -> Table:
    for column in columns:
        if columns.count(column) > 1:
            raise UsageError(f"{name}, line {head + 1}: the column {column!r} is there twice")
    rows: list[tuple[int, Sequence[str]]] = []
    closed = lines[head].endswith("|")
    for at in range(head + 2, len(lines)):
        if "|" not in lines[at] or _begins_another(lines, at):
            break
        rows.append((at + 1, _row(f"{name}, line {at + 1}", lines[at], columns, closed=closed)))
    if not rows:
        raise UsageError(f"{name}, line {head + 1}: a table without rows")
    return Table(_title(lines, head), head + 1, columns, rows)


def _begins_another(lines: Sequence[str], at: int) -> bool:
    """Whether this is the head of a table that follows without an empty line."""
    rule = lines[at + 1] if at + 1 < len(lines) else ""
    return _is_rule(rule, len(_cells(lines[at]))) and all(len(cell) > 2 for cell in _cells(rule))  # noqa: PLR2004 - a lone dash is a cell that says nothing


def _row(place: str, line: str, columns: Sequence[str], *, closed: bool) -> Sequence[str]:
    cells = _cells(line)
    if len(cells) > len(columns):
        raise UsageError(
            f"{place}: {len(cells)} cells, the head of the table has {len(columns)}: write a | "
            "that is part of a text as \\|"
        )
    cut = len(cells) < len(columns) and not closed
    if cut or (closed and not line.endswith("|")):
        raise UsageError(
            f"{place}: the row ends after {len(cells)} of {len(columns)} cells: was it cut off?"
        )
    return [*cells, *[""] * (len(columns) - len(cells))]


def _cells(line: str) -> list[str]:
    """The cells of a line; none where it is no row. A pipe behind a backslash is text."""
    inside = line.strip()
    if "|" not in inside:
        return []
    parts = [found[0] for found in _parts(inside)]
    if inside.startswith("|"):
        parts = parts[1:]
    if len(parts) > 1 and not parts[-1].strip() and inside.endswith("|"):
        parts = parts[:-1]
    return [part.strip().replace("\\|", "|") for part in parts]


def _parts(line: str) -> list[re.Match[str]]:
    """What stands between the pipes."""
    out, at = [], 0
    while True:
        found = _CELLS.match(line, at)
        assert found is not None
        out.append(found)
        at = found.end() + 1
        if at > len(line):
            return out


def _is_rule(line: str, columns: int) -> bool:
    cells = _cells(line)
    return len(cells) == columns and all(_RULE.fullmatch(cell) for cell in cells)


def _title(lines: Sequence[str], head: int) -> str:
    """What the nearest line above calls it, where that is made for it."""
    before = (lines[at].strip() for at in range(head - 1, -1, -1))
    above = next((line for line in before if line), "")
    found = _SUMMARY.fullmatch(above) or _HEADING.fullmatch(above)
    return found["title"].strip() if found else ""
