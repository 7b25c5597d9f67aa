"""The comparison of both sides, as ``optest compare`` has it."""

from __future__ import annotations

from optest.ab.outcome import Outcome
from optest.compare import judge, results
from optest.compare.comparison import Comparison
from optest.compare.judge import Rule
from optest.compare.side import Side


def compared(outcome: Outcome, threshold: float) -> Comparison:
    """What became of every candidate of every case.

    Args:
        outcome: with results on at least one side.
        threshold: the change that matters; 0.05 is 5 %.
    """
    base, head = (_side(outcome, at) for at in (0, 1))
    return judge.compared(base, head, Rule(threshold=threshold, across=True))


def _side(outcome: Outcome, at: int) -> Side:
    name = f"{outcome.revisions[at].shown}, run {outcome.runs[at]}"
    return results.side(name, outcome.results[at], outcome.facts[at])
