"""All mutants of one op test, one at a time."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optest.mutate.graded import LADDERS
from optest.mutate.gross import GROSS
from optest.mutate.letting import allowed, let_through, reached
from optest.mutate.result import Report, Resolution, Trial, Where
from optest.mutate.tampers import Mutation, Recorder, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from optest.mutate.graded import Step
    from optest.mutate.gross import Mutant
    from optest.mutate.unit import Unit

_OTHER_SEED = 1  # what "stale" is made from


@dataclass
class Budget:
    """Seconds that each test function may take; None for no limit."""

    seconds: float | None = None
    _spent: dict[str, float] = field(default_factory=dict)

    def left(self, function: str) -> bool:
        """Whether another case of it may start."""
        return self.seconds is None or self._spent.get(function, 0.0) < self.seconds

    def spend(self, function: str, seconds: float) -> None:
        """Count what a case took."""
        self._spent[function] = self._spent.get(function, 0.0) + seconds


def mutate(units: Sequence[Unit], budget: Budget, tell: Callable[[], None]) -> Report:
    """Put every mutant into every output of every unit; ``tell()`` after each unit.

    A case that fails as it is, or for whose test function no time is left, is reported and not
    mutated.
    """
    report = Report()
    for unit in units:
        started = time.monotonic()
        if budget.left(unit.function):
            report.add(_Mutants(unit).report())
        else:
            report.left_out.append(f"{unit.id}: no time left (--budget {budget.seconds:g})")
        budget.spend(unit.function, time.monotonic() - started)
        tell()
    return report


class _Mutants:
    """The mutants of one unit."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._right = Recorder()
        self._stale = Recorder()
        self._reached: dict[Target, set[int]] = {}

    def report(self) -> Report:
        """Everything found out about the unit."""
        report = Report()
        reasons = self._unit.run(self._right)
        if reasons:
            report.broken.append(f"{self._unit.id} fails unmutated: {'; '.join(reasons)}")
            return report
        report.left_out += self._right.problems
        if not self._right.calls:
            report.left_out.append(f"{self._unit.id}: it calls no run_perftest, nothing to mutate")
        reasons = self._unit.run(self._stale, _OTHER_SEED)
        if reasons:
            words = f"fails on other inputs (OPTEST_SEED + {_OTHER_SEED}): {'; '.join(reasons)}"
            report.left_out.append(f"{self._unit.id}: no stale results: it {words}")
            self._stale.calls.clear()
        for target in self._right.targets():
            report.trials += [self._trial(target, name) for name in GROSS]
            report.resolutions += self._resolutions(target)
        return report

    def _where(self, target: Target) -> Where:
        dtype = str(target.dtype).removeprefix("torch.")
        function = target.case.partition("[")[0] if "::" in target.case else self._unit.function
        return Where(function, target.case, target.candidate, target.output, dtype, target.elements)

    def _trial(self, target: Target, name: str) -> Trial:
        where = self._where(target)
        stale = self._stale_bits(target) if name == "stale" else None
        with self._mutated(target, GROSS[name], stale) as (mutation, reasons):
            known = self._reached.setdefault(target, set())
            known.update(reached(self._right, mutation))
            if reasons and mutation.applied:
                return Trial(where, name, "killed", "; ".join(reasons))
            if mutation.applied:
                checks = let_through(self._right, mutation, target, known)
                return Trial(where, name, "survived", checks=tuple(checks))
        if mutation.missing:
            return Trial(where, name, "survived", checks=("run again, it has no such output",))
        return Trial(where, name, "n/a")

    @contextmanager
    def _mutated(
        self, target: Target, mutant: Mutant, stale: torch.Tensor | None = None
    ) -> Iterator[tuple[Mutation, list[str]]]:
        """The unit run with a mutant, whose tensors are looked at inside."""
        mutation = Mutation(target, mutant, stale)
        try:
            yield mutation, self._unit.run(mutation)
        finally:
            mutation.undo()

    def _stale_bits(self, target: Target) -> torch.Tensor | None:
        calls = self._stale.calls
        bits = calls[target.call].bits if target.call < len(calls) else []
        return bits[target.place] if target.place < len(bits) else None

    def _resolutions(self, target: Target) -> list[Resolution]:
        made = []
        for ladder in LADDERS:
            steps = ladder.steps(target.dtype, target.elements)
            if steps:  # there is no lower precision than the lowest
                made.append(self._resolution(target, ladder.name, steps))
        return made

    def _resolution(self, target: Target, kind: str, steps: list[Step]) -> Resolution:
        """Bisect the steps: what is seen at one is seen at every coarser one."""
        seen, unseen, cannot_hold = -1, len(steps), len(steps)
        while unseen - seen > 1:
            middle = (seen + unseen) // 2
            fate = self._sees(target, steps[middle])
            if fate is None:
                cannot_hold = middle
            if fate:
                seen = middle
            else:
                unseen = middle
        best = steps[seen] if seen >= 0 else None
        return Resolution(
            self._where(target),
            kind,
            best.name if best else "",
            best.size if best else math.inf,
            unseen == cannot_hold,
            self._checks(target),
        )

    def _checks(self, target: Target) -> tuple[str, ...]:
        checks = [self._right.checks[at] for at in sorted(self._reached[target])]
        return tuple(dict.fromkeys(map(allowed, checks)))

    def _sees(self, target: Target, step: Step) -> bool | None:
        """Whether the checks reject it; None where the output can hold no such error."""
        with self._mutated(target, step.mutant) as (mutation, reasons):
            return bool(reasons) if mutation.applied else None
