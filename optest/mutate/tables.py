"""The report as markdown: which mutants each test kills, what survived, what the checks resolve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.cases import table
from optest.mutate.gross import GROSS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from optest.mutate.result import Report, Resolution, Trial

_ALL = "(all)"
_NOTE = (
    "The smallest error that still fails the case, the worst of its cases. "
    f"{_ALL}: every error tried that the output can hold is seen; none: not even the largest."
)


def markdown(report: Report) -> str:
    """All tables of a report, each under a heading; those with nothing to say are left out."""
    survivors = [_survivor(trial) for trial in report.survivors]
    parts = [
        ("Gross mutants killed", table.markdown(_matrix(report.trials)) if report.trials else ""),
        ("Survivors", table.markdown(survivors) if survivors else ""),
        ("Resolution of the checks", _resolutions(report.resolutions)),
        ("Failing without a mutant", _list(report.broken)),
        ("Left out", _list(report.left_out)),
        ("Not for this arch", _list(report.gated)),
    ]
    return "\n\n".join(f"### {head}\n\n{body}" for head, body in parts if body) + "\n"


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _matrix(trials: Sequence[Trial]) -> list[dict[str, str]]:
    """One row a test, one column a mutant: killed / tried, over cases, candidates, outputs."""
    rows = []
    for function in dict.fromkeys(trial.where.function for trial in trials):
        own = [trial for trial in trials if trial.where.function == function]
        row = {"test": function}
        for mutant in GROSS:
            row[mutant] = _cell([trial for trial in own if trial.mutant == mutant])
        rows.append(row)
    return rows


def _cell(trials: Sequence[Trial]) -> str:
    tried = [trial for trial in trials if trial.fate != "n/a"]
    killed = sum(trial.fate == "killed" for trial in tried)
    if not tried:
        return "n/a"
    return f"{killed}/{len(tried)}" if killed == len(tried) else f"**{killed}/{len(tried)}**"


def _survivor(trial: Trial) -> dict[str, str]:
    where = trial.where
    return {
        "case": where.case,
        "candidate": where.candidate,
        "output": f"{where.output} ({where.dtype})",
        "mutant": trial.mutant,
        "let through by": "; ".join(trial.checks),
    }


_Key = tuple[str, str, str, str]


def _resolutions(found: Sequence[Resolution]) -> str:
    """One row a test, candidate, output and dtype: the worst of its cases."""
    groups: dict[_Key, list[Resolution]] = {}
    for each in found:
        where = each.where
        key = (where.function, where.candidate, where.output, where.dtype)
        groups.setdefault(key, []).append(each)
    rows = [_resolution_row(key, group) for key, group in groups.items()]
    return f"{table.markdown(rows)}\n\n{_NOTE}" if rows else ""


def _resolution_row(key: _Key, group: Sequence[Resolution]) -> dict[str, str]:
    function, candidate, output, dtype = key
    row = {"test": function, "candidate": candidate, "output": f"{output} ({dtype})"}
    for kind in dict.fromkeys(each.kind for each in group):
        row[kind] = _worst([each for each in group if each.kind == kind])
    words = dict.fromkeys(words for each in group for words in each.checks)
    row["checks"] = "; ".join(words) or "none seen"
    return row


def _worst(group: Sequence[Resolution]) -> str:
    """The coarsest of the cases in which a finer error was let through; else the finest."""
    blind = [each for each in group if not each.at_limit]
    if blind:
        return max(blind, key=lambda each: each.size).seen or "**none**"
    finest = min(group, key=lambda each: each.size).seen
    return f"{finest} {_ALL}" if finest else "n/a"
