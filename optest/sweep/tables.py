"""Results as each script would have printed them: one markdown table a test function."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from optest.line import one_line
from optest.store.records import Result, is_timing, is_verdict

_GFX = "gfx"
_ERROR = "error"
_LONGEST_ERROR = 200  # a wider table is not read; the whole reason is in the list of failures
_NO_ROW = ("skipped",)
_INFINITE = {"inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        rows: with results as the values that a test function returned.
        notes: what a reader of its numbers has to know, a sentence each.
    """

    title: str
    rows: Sequence[dict[str, Any]]
    notes: Sequence[str] = ()

    @property
    def markdown(self) -> str:
        """The pipe table, and the notes below it."""
        from optest.cases import table

        notes = "".join(f"\n\n{note}" for note in self.notes)
        return table.markdown(_with_all_columns(self.rows)) + notes


def tables(results: Iterable[Result]) -> list[Table]:
    """The tables of a run, in the order of its results.

    Those of a case that died or hung have its arguments, the card, and the reason in ``error``.
    """
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        unit = result.planned
        if not unit.whole and result.status not in _NO_ROW:
            groups.setdefault((unit.file, unit.table, unit.function), []).append(result)
    titles = _titles(groups)
    return [_table(titles[key], group) for key, group in groups.items()]


def _titles(keys: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
    """What the script calls each table; with the function or the file where two would be alike."""
    keys = list(keys)
    functions = Counter((file, table) for file, table, _ in keys)
    titles = {
        (file, table, function): f"{table} ({function})"
        if table and functions[file, table] > 1
        else table or function
        for file, table, function in keys
    }
    alike = Counter(titles.values())
    return {
        key: f"{title} ({key[0]})" if alike[title] > 1 else title for key, title in titles.items()
    }


def _table(title: str, results: Sequence[Result]) -> Table:
    cards = {result.planned.where for result in results}
    told = len(cards) > 1 or any(_GFX in result.row for result in results)
    rows = [_row(result, told=told) for result in results]
    _flag(title, results, rows)
    return Table(title, rows, _notes(results, rows))


def _row(result: Result, *, told: bool) -> dict[str, Any]:
    row: dict[str, Any] = {name: _plain(v) for name, v in result.planned.arguments.items()}
    if told and _GFX not in result.row:
        row[_GFX] = result.place.gfx or result.planned.where
    row |= {name: value_of(value) for name, value in result.row.items()}
    if not result.good and result.status != "failed":
        # Moved to the end: its column is no measure.
        died = result.status in ("crashed", "hung")
        words = f"{result.status}: {result.reason}" if died else result.reason
        row[_ERROR] = one_line(str(row.pop(_ERROR, None) or words), _LONGEST_ERROR)
    return row


def value_of(value: Any) -> Any:  # noqa: ANN401 - any JSON type in, any cell out
    """What the test function returned, from what the store holds of it."""
    from optest.checking import Verdict
    from optest.timing import Timing

    if is_timing(value):
        return Timing.from_dict(value)
    if is_verdict(value):
        return Verdict.from_dict(value)
    return math.nan if value is None else _plain(value)  # JSON has no NaN


def _plain(value: Any) -> Any:  # noqa: ANN401 - the same
    return _INFINITE.get(value, value) if isinstance(value, str) else value


def _with_all_columns(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first row names every column, so that one that failed does not decide their order."""
    healthy_first = sorted(rows, key=lambda row: _ERROR in row)
    columns = list(dict.fromkeys(name for row in healthy_first for name in row if name != _ERROR))
    columns += [_ERROR] * any(_ERROR in row for row in rows)
    return [{name: rows[0].get(name) for name in columns}, *rows[1:]] if rows else []


def _notes(results: Sequence[Result], rows: Sequence[dict[str, Any]]) -> list[str]:
    from optest.timing import Timing

    timings = [
        {name: v for name, v in row.items() if isinstance(v, Timing) and not math.isnan(v)}
        for row in rows
    ]
    beside = sum(
        bool(timed) and result.neighbours > 0
        for result, timed in zip(results, timings, strict=True)
    )
    notes = []
    if beside:
        notes.append(
            f"{beside} of {len(rows)} rows: timed while other cases ran on the same machine; their "
            "times are upper bounds."
        )
    contended = dict.fromkeys(name for timed in timings for name in timed if timed[name].contended)
    if contended:
        notes.append(
            f"{', '.join(contended)}: most samples of some rows were preempted by other processes; "
            "their times are upper bounds."
        )
    return notes


def _flag(title: str, results: Sequence[Result], rows: Sequence[dict[str, Any]]) -> None:
    """Warn of rates that no machine reaches, where they were measured on a card like this one."""
    from optest import arch
    from optest.cases import plausible

    here = arch.get_gfx_runtime()
    own = [row for result, row in zip(results, rows, strict=True) if result.place.gfx == here]
    plausible.flag(title, own)
