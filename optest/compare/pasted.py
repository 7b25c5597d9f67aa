"""Pasted tables, of ours and of aiter's form, as one side of a comparison.

Both have the arguments of the test function on the left, then perhaps ``gfx``, then for each
candidate ``NAME us`` and what goes with it. What stands to the right and is none of that is left
alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from optest.compare.markdown_tables import Table, tables
from optest.compare.results import BAD_WORDS, is_time, wrong_share
from optest.compare.side import Case, Cell, Side
from optest.errors import UsageError
from optest.store import columns
from optest.store.records import Place

_TIME, _ERROR, _GFX, _REASON = "us", "err", "gfx", "error"
_RATES = ("TFLOPS", "TB/s", "GB/s", "GFLOPS", "TFLOP/s")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NOTHING = ("", "nan", "none", "null", "-", "n/a", "na", "<na>")
_GOOD = ("pass", "passed", "ok", "true")


def side(name: str, text: str) -> Side:
    """All tables of ``text`` that hold times or errors.

    Raises:
        UsageError: there is none, or something in one cannot be read; it names the line.
    """
    found = tables(name, text)
    used = [table for table in found if _measures(table)]
    if not used:
        heads = "; ".join(f"line {t.line}: {', '.join(t.columns)}" for t in found[:3])
        raise UsageError(
            f"{name}: expected a markdown table with a column 'us' or 'NAME us', found "
            f"{heads or 'no table'}"
        )
    cards = dict.fromkeys(card for table in used for card in _cards(table))
    cases: dict[tuple[str, str], Case] = {}
    for table, title in zip(used, _titles(used), strict=True):
        left = _left(table)
        for line, cells in table.rows:
            row = dict(zip(table.columns, cells, strict=True))
            where = row.get(_GFX, "") if len(cards) > 1 else ""
            case = _case(f"{name}, line {line}", title, row, left, where)
            if (case.id, where) in cases:
                raise UsageError(f"{name}, line {line}: {case.id} is there twice")
            cases[case.id, where] = case
    left_out = len(found) - len(used)
    notes = [f"{name}: {left_out} of {len(found)} tables hold no times"] if left_out else []
    return Side(
        name, [*cases.values()], [Place(gfx=card) for card in cards], pasted=True, notes=notes
    )


def _cards(table: Table) -> Sequence[str]:
    """What the column ``gfx`` holds."""
    if _GFX not in table.columns:
        return []
    at = table.columns.index(_GFX)
    return [cells[at] for _, cells in table.rows if cells[at]]


def _titles(used: Sequence[Table]) -> list[str]:
    """One for each table: its own where that names it alone, with a number where it does not."""
    own = [table.title for table in used]
    times = Counter(own)
    return [
        title if title and times[title] == 1 else f"{title or 'table'} {number}"
        for number, title in enumerate(own, 1)
    ]


def _measures(table: Table) -> list[str]:
    """The columns that belong to candidates."""
    names = [columns.split(column) for column in table.columns]
    candidates = {candidate for candidate, quantity in names if quantity in {_TIME, _ERROR}}
    return [
        column
        for column, (candidate, quantity) in zip(table.columns, names, strict=True)
        if candidate in candidates and quantity in {_TIME, _ERROR, *_RATES}
    ]


def _left(table: Table) -> Sequence[str]:
    """The columns of the arguments: those before the card and the first candidate, no index."""
    ends = {*_measures(table), _GFX, _REASON}
    first = next(at for at, column in enumerate(table.columns) if column in ends)
    return table.columns[_index(table) : first]


def _index(table: Table) -> int:
    """How many columns pandas' index takes: it counts the rows and says nothing of any."""
    counts = all(cells[0] == str(at) for at, (_, cells) in enumerate(table.rows))
    return int(table.columns[0] == "" and counts)


def _case(place: str, title: str, row: Mapping[str, str], left: Sequence[str], node: str) -> Case:
    arguments = {column: row[column] for column in left}
    words = "-".join(f"{column}={value}" for column, value in arguments.items())
    cells: dict[str, Cell] = {}
    for column, value in row.items():
        candidate, quantity = columns.split(column)
        if column in left or quantity not in {_TIME, _ERROR}:
            continue
        before = cells.get(candidate, Cell())
        where = f"{place}, column {column!r}"
        if quantity == _TIME:
            cells[candidate] = Cell(_time(where, value), wrong=before.wrong)
        else:
            cells[candidate] = Cell(before.us, wrong=_wrong(where, value))
    told = {
        name: cell for name, cell in cells.items() if cell.timed or cell.wrong or _err(row, name)
    }
    return Case(
        f"{title}[{words}]",
        table=title,
        arguments=arguments,
        where=node,
        gfx=row.get(_GFX, ""),
        wrong=row.get(_REASON, ""),
        cells=told,
    )


def _err(row: Mapping[str, str], candidate: str) -> bool:
    """Whether there is an error beside it: the candidate ran, though it was not timed."""
    return row.get(columns.joined(candidate, _ERROR), "").lower() not in _NOTHING


def _time(where: str, text: str) -> float:
    if text.lower() in _NOTHING:
        return math.nan
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not is_time(value):
        raise UsageError(
            f"{where}: {text!r}: expected microseconds above zero, as 12.3 or 1.2e+03, or nothing"
        )
    return value


def _wrong(where: str, text: str) -> str:
    """Why a result is wrong, from its cell of ``err``."""
    number, _, verdict = text.partition(" ")
    if text.lower() in {*_NOTHING, *_GOOD}:
        return ""
    if text.lower() in BAD_WORDS:
        return "failed"
    known = bool(_NUMBER.fullmatch(number)) and verdict.lower() in {"", *BAD_WORDS}
    if not known:
        raise UsageError(
            f"{where}: {text!r}: expected a share of mismatches, as 0.01 or '0.3 FAIL', or nothing"
        )
    if verdict:
        return f"err {number}"
    return wrong_share(float(number))
