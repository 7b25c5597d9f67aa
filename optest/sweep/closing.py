"""The last words of a sweep: totals, what failed and how to run it alone, what else there is."""

from __future__ import annotations

from collections.abc import Iterable

from optest.line import one_line
from optest.store.records import Result
from optest.sweep import commands
from optest.sweep.sweep_outcome import NOTHING_RAN, Outcome
from optest.sweep.words import after, duration

_SHOWN = 50


def closing(outcome: Outcome, store: str, *, quiet: bool) -> str:
    """What stands on standard error when a sweep ends; quiet, what failed alone.

    Args:
        outcome: of the sweep.
        store: its URL without a password; empty for the default one.
        quiet: whether totals and what is merely worth knowing are left out.
    """
    lines = [] if quiet else [*_first(outcome), *_worth_knowing(outcome)]
    lines += _failures(outcome)
    for each in outcome.faulty:
        lines += [f"  FAULT {one_line(each.file)}", f"    {one_line(after(each.fault, each.file))}"]
    lines += _left_undone(outcome, store)
    return "".join(f"{line}\n" for line in lines)


def _first(outcome: Outcome) -> list[str]:
    run = f" (run {outcome.run})" if outcome.run else ""
    return [f"optest: {outcome.totals()} in {duration(outcome.seconds)}{run}"]


def _failures(outcome: Outcome) -> list[str]:
    bad = outcome.bad
    lines = [line for result in bad[:_SHOWN] for line in _failure(result, outcome)]
    if len(bad) > _SHOWN:
        lines.append(f"  … and {len(bad) - _SHOWN} more")
    return lines


def _failure(result: Result, outcome: Outcome) -> list[str]:
    unit = result.planned
    where = f" on {unit.where}" if unit.where else ""
    collected = unit.file not in {each.file for each in outcome.whole}
    return [
        f"  {result.status.upper()} {one_line(unit.id)}{where}",
        f"    {one_line(result.reason)}",
        f"    alone: {commands.alone(unit, outcome.request, collected=collected)}",
    ]


def _worth_knowing(outcome: Outcome) -> list[str]:
    notes = [
        *(
            f"not for this card: {_of(each.file, each.where)}: {each.gated}"
            for each in outcome.gated
        ),
        *(f"run whole: {_of(each.file, each.where)}: {each.whole}" for each in outcome.whole),
        *(f"left out, since it is run whole or not at all: {file}" for file in outcome.left_out),
        *_left_changed(outcome.results),
    ]
    return [f"  {one_line(note)}" for note in _bounded(notes)]


def _left_changed(results: Iterable[Result]) -> list[str]:
    """One line for each thing that cases left changed, however many they are."""
    by_what: dict[str, list[str]] = {}
    for result in results:
        for what in result.left:
            by_what.setdefault(what, []).append(result.planned.id)
    return [
        f"left changed, and put right: {what}: by {ids[0]}"
        + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")
        for what, ids in by_what.items()
    ]


def _bounded(notes: Iterable[str]) -> list[str]:
    notes = list(dict.fromkeys(notes))
    more = [f"… and {len(notes) - _SHOWN} more"] if len(notes) > _SHOWN else []
    return [*notes[:_SHOWN], *more]


def _of(file: str, where: str) -> str:
    return f"{file} on {where}" if where else file


def _left_undone(outcome: Outcome, store: str) -> list[str]:
    lines = []
    if outcome.vanished:
        ids = ", ".join(one_line(unit.id) for unit in outcome.vanished[:3])
        lines.append(
            f"optest: {len(outcome.vanished)} units of the run are in no op test any more: {ids}"
        )
    if outcome.elsewhere:
        lines.append(f"optest: {outcome.elsewhere}")
    if outcome.fault:
        lines.append(f"optest: stopped: {one_line(outcome.fault)}")
    if outcome.interrupted:
        lines.append("optest: interrupted; what was finished is in the tables and in the store")
    if outcome.run and (outcome.interrupted or outcome.fault):
        lines.append(f"optest: go on with: {commands.resume(outcome.run, store)}")
    if not lines and outcome.exit_code == NOTHING_RAN:
        lines.append("optest: no case ran (an empty list of shapes or dtypes?), exit code 5")
    return lines
