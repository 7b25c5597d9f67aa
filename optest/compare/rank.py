"""Which candidate won: of each case the fastest right one, and those that are as fast."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optest.compare import statistics
from optest.compare.side import WHOLE, Case, Cell, Side
from optest.compare.verdict import is_change
from optest.compare.words import code, microseconds, percent
from optest.store.text import spreadsheet_safe

VERSION = 1
_DRIFT = 0.005  # between two measurements of one process


@dataclass(frozen=True)
class Ranking:
    """One case.

    Attributes:
        case: its id, file, arguments, card.
        winner: the fastest right candidate; empty where there is none.
        us: its median.
        ties: the others, fastest first, that the noise does not tell from it.
        behind: of each that lost, how its time is to the winner's, fastest first.
        wrong: of each that is not right, why.
    """

    case: Case
    winner: str = ""
    us: float = math.nan
    ties: Sequence[str] = ()
    behind: Mapping[str, float] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)


def ranked(side: Side) -> list[Ranking]:
    """Every case that has a candidate, in order.

    Candidates of a case are measured one after the other in one process, so that little drift
    stands between them. One lost where its p against the winner, adjusted for the number of all
    such pairs, is below 1 %, the interval leaves out 1, and the medians differ by more than half a
    per cent; else the two are tied, as they are where most calls of one were preempted. Of times
    without samples the smaller wins.
    """
    made = [_sorted(case) for case in side.cases if case.cells or case.wrong]
    duels = [(at, name) for at, (_, order) in enumerate(made) for name in order[1:]]
    won = _won(made, duels)
    out: list[Ranking] = []
    for at, (ranking, order) in enumerate(made):
        ties = [name for name in order[1:] if not won[at, name]]
        behind = {
            name: ranking.case.cells[name].us / ranking.us for name in order[1:] if won[at, name]
        }
        out.append(Ranking(ranking.case, ranking.winner, ranking.us, ties, behind, ranking.wrong))
    return out


def _sorted(case: Case) -> tuple[Ranking, list[str]]:
    """The fastest, with the names of all right ones in order."""
    cells = {WHOLE: Cell()} if case.wrong and not case.cells else case.cells
    wrong = {name: cell.wrong or case.wrong for name, cell in cells.items()}
    right = [name for name, cell in cells.items() if cell.timed and not wrong[name]]
    order = sorted(right, key=lambda name: cells[name].us)
    winner = order[0] if order else ""
    us = cells[winner].us if order else math.nan
    told = {name: why for name, why in wrong.items() if why}
    return Ranking(case, winner, us, wrong=told), order


def _won(
    made: Sequence[tuple[Ranking, list[str]]], duels: Sequence[tuple[int, str]]
) -> dict[tuple[int, str], bool]:
    """Whether the fastest of each case is faster than this one, beyond the noise."""
    first, second, sampled = [], [], []
    out: dict[tuple[int, str], bool] = {}
    for at, name in duels:
        ranking = made[at][0]
        best, other = ranking.case.cells[ranking.winner], ranking.case.cells[name]
        if best.contended or other.contended:
            out[at, name] = False
        elif best.samples and other.samples:
            first.append(best.samples)
            second.append(other.samples)
            sampled.append((at, name))
        else:
            out[at, name] = other.us > best.us
    changes = statistics.unpaired_changes(first, second, _DRIFT)
    for duel, (change, p) in zip(sampled, changes.adjusted(), strict=True):
        out[duel] = is_change(change.ratio, change.interval, p)
    return out


def table(rankings: Sequence[Ranking]) -> str:
    """A markdown table, a case a row."""
    rows = [
        "| case | fastest | us | tied with | behind | wrong |\n|:---|:---|---:|:---|:---|:---|\n"
    ]
    for each in rankings:
        behind = ", ".join(f"{_name(n)} {percent(ratio)}" for n, ratio in each.behind.items())
        wrong = ", ".join(_name(name) for name in each.wrong)
        tied = ", ".join(_name(name) for name in each.ties)
        winner = _name(each.winner) if not math.isnan(each.us) else ""
        cells = (code(each.case.title), winner, microseconds(each.us), tied, behind, wrong)
        rows.append(f"| {' | '.join(cells)} |\n")
    return "".join(rows)


def _name(candidate: str) -> str:
    return code(candidate) or "(the case)"


def document(name: str, rankings: Sequence[Ranking]) -> str:
    """JSON for a dispatcher, a case an entry with its arguments. ``docs/compare.md``."""
    entries = [_entry(each) for each in rankings]
    whole = {"optest_rank": VERSION, "run": name, "cases": entries}
    return json.dumps(whole, allow_nan=False, indent=1) + "\n"


def _entry(ranking: Ranking) -> dict[str, Any]:
    case = ranking.case
    known = not math.isnan(ranking.us)
    return {
        "case": case.id,
        "file": case.file,
        "table": case.table,
        "gfx": case.gfx,
        "arguments": dict(case.arguments),
        "winner": ranking.winner if known else None,
        "us": ranking.us if known else None,
        "ties": list(ranking.ties),
        "behind": dict(ranking.behind),
        "wrong": dict(ranking.wrong),
    }


def rows(rankings: Sequence[Ranking]) -> str:
    """CSV for a dispatcher: a case a line, an argument a column ``arg.NAME``."""
    names = dict.fromkeys(name for each in rankings for name in each.case.arguments)
    left, right = ("case", "table", "gfx"), ("winner", "us", "ties", "wrong")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*left, *(spreadsheet_safe(f"arg.{name}") for name in names), *right])
    for each in rankings:
        arguments = [each.case.arguments.get(name, "") for name in names]
        us = "" if math.isnan(each.us) else repr(each.us)
        found = [each.winner, us, ";".join(each.ties), ";".join(each.wrong)]
        cells = [each.case.id, each.case.table, each.case.gfx, *arguments, *found]
        writer.writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(text: str) -> str:
    """A cell that no spreadsheet runs; numbers stay as they are."""
    try:
        float(text)
    except ValueError:
        return spreadsheet_safe(text)
    return text
