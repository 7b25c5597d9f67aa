"""Two sides into a comparison: what to compare, what is wrong, what changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from optest.compare import alike, in_turn, statistics, verdict
from optest.compare.comparison import Comparison, Line
from optest.compare.matching import pairs
from optest.compare.side import WHOLE, Case, Cell, Side
from optest.compare.statistics import Change, Changes, Mean
from optest.compare.verdict import Verdict
from optest.compare.words import counted
from optest.errors import UsageError

_CONTENDED = "most calls were preempted: the time is only a bound"
_FAR = 2.0  # drifts, from which a change that all cases share is worth a word


@dataclass(frozen=True)
class Rule:
    """How two sides are judged.

    Attributes:
        threshold: the change that matters; 0.05 is 5 %.
        drift: between two runs of one version, as ``statistics.unpaired_changes`` takes it; None
            where it is to be found.
        across: compare also what was not measured alike.
    """

    threshold: float = 0.05
    drift: float | None = None
    across: bool = False


@dataclass(frozen=True, slots=True)
class _Timed:
    """Two times that are to be judged: whose they are, and notes."""

    case: Case
    candidate: str
    base: Cell
    head: Cell
    notes: Sequence[str] = ()

    @property
    def sampled(self) -> bool:
        """Whether both have samples."""
        return len(self.base.samples) > 0 and len(self.head.samples) > 0


def compared(base: Side, head: Side, rule: Rule | None = None) -> Comparison:
    """What became of every candidate of every case.

    Raises:
        UsageError: the sides were not measured alike and ``across`` is not said, have no case in
            common, or cases that cannot be told apart.
    """
    rule = rule or Rule()
    unlike = alike.differences(base, head)
    if unlike and not rule.across:
        raise UsageError(_refusal(base, head, unlike))
    matched = pairs(base, head)
    turns = bool(base.pair) and base.pair == head.pair
    # Of two versions of one repository, all cases may be new.
    if not turns and not any(before and after for before, after in matched):
        raise UsageError(
            f"{base.name} ({len(base.cases)} cases) and {head.name} ({len(head.cases)} cases) have "
            "no case in common: expected the same op tests with the same arguments"
        )
    entries = _entries(matched, rule)
    sampled = [entry for entry in entries if isinstance(entry, _Timed) and entry.sampled]
    changes = _changes(sampled, rule, turns=turns) if sampled else None
    lines = [*_judged(entries, changes, rule)]
    drift = statistics.DRIFT if changes is None else changes.drift
    return Comparison(
        base.name,
        head.name,
        lines,
        machine=_machine(head),
        means=_means(lines, drift),
        threshold=rule.threshold,
        differences=unlike,
        notes=[
            *_notes(base, head),
            *_of_points_alone(entries, base, head),
            *(_of_turns(sampled) if turns else _of_runs(changes)),
        ],
    )


def _refusal(base: Side, head: Side, unlike: Sequence[str]) -> str:
    listed = "\n".join(f"  {line}" for line in unlike)
    return (
        f"{base.name} and {head.name} were not measured alike:\n{listed}\nTheir times say little "
        "of the code. --across compares them all the same, and says so."
    )


def _machine(side: Side) -> str:
    words = dict.fromkeys(word for place in side.places for word in (place.gfx, place.device))
    return ", ".join(word for word in words if word)


def _entries(matched: Sequence[tuple[Case | None, Case | None]], rule: Rule) -> list[Line | _Timed]:
    """For each candidate of each case its line, or two times that one is yet to be made of."""
    entries: list[Line | _Timed] = []
    for before, after in matched:
        for candidate in _candidates(before, after):
            base, head = _cell(before, candidate), _cell(after, candidate)
            if candidate == WHOLE:
                base, head = _untimed(before, base, head), _untimed(after, head, base)
            if after and base and head and _comparable(base, head):
                entries.append(_timed(after, candidate, base, head, rule))
            else:
                entries.append(_line(before, after, candidate, (base, head)))
    return entries


def _comparable(base: Cell, head: Cell) -> bool:
    """Whether both are right and timed."""
    return not (base.wrong or head.wrong) and base.timed and head.timed


def _candidates(before: Case | None, after: Case | None) -> Iterator[str]:
    """Of both; of a case that has none and is wrong, the case as a whole."""
    names = {**(before.cells if before else {}), **(after.cells if after else {})}
    if names:
        yield from names
    elif any(case and case.wrong for case in (before, after)):
        yield WHOLE


def _cell(case: Case | None, candidate: str) -> Cell | None:
    """What is known of a candidate; None where it did not run. A case that died took all along."""
    if case is None:
        return None
    cell = case.cells.get(candidate)
    if candidate == WHOLE and not case.cells:
        cell = Cell()
    if not case.wrong:
        return cell
    return replace(cell or Cell(), wrong=(cell and cell.wrong) or case.wrong)


def _untimed(case: Case | None, cell: Cell | None, other: Cell | None) -> Cell | None:
    """A check of the case as a whole that passed leaves no cell: it is there all the same."""
    return Cell() if case and cell is None and other and not other.timed else cell


def _line(
    before: Case | None, after: Case | None, candidate: str, cells: tuple[Cell | None, Cell | None]
) -> Line:
    case = after or before
    assert case is not None
    base, head = cells
    was, now = (cell.wrong if cell else "" for cell in cells)
    found = _standing(cells)
    return Line(
        case.title,
        candidate,
        found,
        case.file,
        base.us if base else math.nan,
        head.us if head else math.nan,
        reason=now or was,
        failure=bool(now) and not was,
    )


def _standing(cells: tuple[Cell | None, Cell | None]) -> Verdict:
    """The verdict that needs no time; ``UNTIMED`` where both are right."""
    base, head = cells
    if base is None:
        return Verdict.NEW
    if head is None:
        return Verdict.GONE
    if base.wrong:
        return Verdict.STILL_WRONG if head.wrong else Verdict.NOW_RIGHT
    return Verdict.NOW_WRONG if head.wrong else Verdict.UNTIMED


def _timed(case: Case, candidate: str, base: Cell, head: Cell, rule: Rule) -> _Timed:
    unlike = alike.of_cells(base, head)
    if unlike and not rule.across:
        raise UsageError(
            f"{case.id}, {candidate}: not measured alike ({'; '.join(unlike)}). --across compares "
            "it all the same, and says so."
        )
    contended = base.contended or head.contended
    return _Timed(case, candidate, base, head, [*unlike, _CONTENDED] if contended else unlike)


def _changes(sampled: Sequence[_Timed], rule: Rule, *, turns: bool) -> Changes:
    """What the samples of two runs say, or of two sides that were measured in turn."""
    if turns:
        return in_turn.changes(
            [in_turn.split(pair.base.samples, pair.base.blocks) for pair in sampled],
            [in_turn.split(pair.head.samples, pair.head.blocks) for pair in sampled],
        )
    return statistics.unpaired_changes(
        [pair.base.samples for pair in sampled], [pair.head.samples for pair in sampled], rule.drift
    )


def _judged(
    entries: Sequence[Line | _Timed], changes: Changes | None, rule: Rule
) -> Iterator[Line]:
    """The lines, those of two times with what is said of them."""
    sampled = iter(()) if changes is None else changes.adjusted()
    for entry in entries:
        if isinstance(entry, Line):
            yield entry
            continue
        change, p = next(sampled) if entry.sampled else _of_points(entry)
        found = _verdict(entry, change, p, rule)
        yield Line(
            entry.case.title,
            entry.candidate,
            found,
            entry.case.file,
            entry.base.us,
            entry.head.us,
            change.ratio,
            change.low,
            change.high,
            p,
            notes=entry.notes,
            regression=found is Verdict.SLOWER and change.ratio > 1.0 + rule.threshold,
        )


def _of_points(pair: _Timed) -> tuple[Change, float]:
    """Two numbers and nothing else."""
    return Change(pair.head.us / pair.base.us, 0.0, math.inf, math.nan), math.nan


def _verdict(pair: _Timed, change: Change, p: float, rule: Rule) -> Verdict:
    if pair.base.contended or pair.head.contended:
        return Verdict.NOISY
    if pair.sampled:
        return verdict.of_change(change.ratio, change.interval, p, threshold=rule.threshold)
    # No interval is known: what is beyond the threshold counts.
    if change.ratio > 1.0 + rule.threshold:
        return Verdict.SLOWER
    return Verdict.FASTER if change.ratio < 1.0 / (1.0 + rule.threshold) else Verdict.SAME


def _means(lines: Sequence[Line], drift: float) -> dict[str, Mean]:
    ratios: dict[str, list[float]] = {}
    for line in lines:
        if line.ratio > 0.0:
            ratios.setdefault(line.candidate, []).append(line.ratio)
    return {name: statistics.geometric_mean(each, drift) for name, each in ratios.items()}


def _notes(base: Side, head: Side) -> list[str]:
    notes = [*base.notes, *head.notes]
    notes += [f"not the same, which may be meant: {line}" for line in alike.remarks(base, head)]
    notes += [
        f"{side.name} is a pasted table: it holds no samples, so no interval is known and what is "
        "beyond the threshold is called a change"
        for side in (base, head)
        if side.pasted
    ]
    return notes


def _of_points_alone(entries: Sequence[Line | _Timed], base: Side, head: Side) -> Iterator[str]:
    """What a run lacks that was stored without its samples; of a pasted table it is said before."""
    if base.pasted or head.pasted:
        return
    bare = sum(isinstance(entry, _Timed) and not entry.sampled for entry in entries)
    if bare:
        yield (
            f"{counted(bare, 'timing')} without samples on one side or both: no interval is known "
            "there, and what is beyond the threshold is called a change"
        )


def _of_runs(changes: Changes | None) -> Iterator[str]:
    """What is to be known of two runs that were made one after the other."""
    if changes is None:
        return
    yield (
        f"the runs were made one after the other: intervals allow for a drift of "
        f"{100 * changes.drift:.1f} % between them; optest ab tells smaller changes"
    )
    if abs(math.log(changes.common)) > _FAR * statistics.DRIFT:
        yield (
            f"the median of all ratios is {changes.common:.3f}: a change that all cases share "
            "may be the machine's; optest ab tells the two apart"
        )


def _of_turns(sampled: Sequence[_Timed]) -> Iterator[str]:
    """The same of two sides that were measured in turn."""
    if not sampled:
        return
    fewest = min(len(pair.base.blocks) for pair in sampled)
    yield f"both were measured in turn, in {fewest} blocks or more: a drift of the machine cancels"
