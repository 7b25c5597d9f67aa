"""The guards around one candidate of a case: which of them look, when, and who is told."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch

from optest.cases import declared, device
from optest.cases.second_pass import Print
from optest.guards import alias, canary, decoy, late, moved, patched, plain, process
from optest.guards.hidden import hidden
from optest.guards.repeat import Repeats, Subject, unwritten
from optest.guards.rng import Generators
from optest.log import once
from optest.tensors import tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optest.cases.candidate import Candidate
    from optest.cases.case import Case
    from optest.cases.session import Session
    from optest.guards.finding import Finding
    from optest.guards.first_call import FirstCall
    from optest.tensors import Snapshot


class Guarding:
    """What is looked at around the calls of one candidate.

    Args:
        session: whose ``guards`` say how much; its running case is the candidate's.
        candidate: what is called.
    """

    def __init__(self, session: Session, candidate: Candidate) -> None:
        self._session, self._candidate = session, candidate
        self._case: Case | None = session.case
        self._second = self._case is not None and self._case.first is not None
        self._full = session.guards == "full" and not self._second
        self._hidden: list[torch.Tensor] = []

    @contextmanager
    def first_call(self, first: FirstCall) -> Iterator[None]:
        """Around the first call: what it leaves changed in the process, and what it may see."""
        if not self._full:
            with self._unseen(first.snapshot), moved.watched(self._candidate.reachable, self._tell):
                yield
            return
        with self._kept():
            yield

    @contextmanager
    def timed_calls(self) -> Iterator[None]:
        """Around the calls that are timed: a candidate may have waited for them."""
        if not self._full:
            yield
            return
        with self._kept():
            yield

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """The process, its generators and the caller's tensors are afterwards as before."""
        state, generators = process.now(), Generators.now()
        with moved.watched(self._candidate.reachable, self._tell):
            yield
        deterministic = self._case is None or self._case.declared.deterministic
        self._tell(generators.finding(deterministic=deterministic))
        for name in process.put_back(state):
            self._tell(process.finding(name))

    @contextmanager
    def _unseen(self, snapshot: Snapshot) -> Iterator[None]:
        """In the second pass: its inputs are drawn by now, and the references are out of sight."""
        case = self._case
        if case is None or case.first is None or case.fresh is None:
            yield
            return
        references = declared.found_again(case.first.references)
        with ExitStack() as around:
            self._hidden = around.enter_context(hidden(references, self._candidate.reachable))
            around.enter_context(case.fresh.paused())
            decoy.call(self._candidate, snapshot)
            yield

    def after_first(self, first: FirstCall, data: Any) -> None:  # noqa: ANN401 - of any kernel
        """Look at what the first call returned and did; under full guards, call again."""
        changed = first.changed_inputs()
        self._tell_of_inputs(first, changed)
        self._look(data)
        self._tell(alias.of_reference(data, self._hidden))
        if not self._full:
            return
        self._tell(moved.beside(first.snapshot))
        self._tell(self._alias(first, data, changed))
        self._tell(patched.everything())
        self._repeat(first, data)

    def after_timing(self, first: FirstCall, data: Any) -> None:  # noqa: ANN401
        """Look at what the last timed call returned and did."""
        self._look(data)
        if not self._full:
            return
        for finding in moved.later(first.snapshot, first.changed):
            self._tell(finding)
        self._tell(self._alias(first, data, first.changed_inputs()))
        self._tell(late.finding([*tensors_in(data), *first.changed]))

    def _alias(
        self,
        first: FirstCall,
        data: Any,  # noqa: ANN401
        changed: list[torch.Tensor],
    ) -> Finding | None:
        inputs = [t for t in self._candidate.reachable if not first.was_blank(t)]
        untouched = [t for t in inputs if not any(t is each for each in changed)]
        return alias.finding(data, untouched, self._allowed(untouched))

    def left_unwritten(self, count: int, data: Any) -> None:  # noqa: ANN401
        """Tell of elements of a result that no call wrote."""
        if count and not (self._case is not None and self._case.declared.unwritten):
            self._tell(unwritten(count, sum(tensor.numel() for tensor in tensors_in(data))))

    def _look(self, data: Any) -> None:  # noqa: ANN401
        self._tell(plain.finding(data))
        self._tell(patched.builtin())
        for finding in canary.findings(self._candidate.reachable, data):
            self._tell(finding)

    def _tell(self, finding: Finding | None) -> None:
        if finding is not None:
            self._session.note_finding(finding)

    def _repeat(self, first: FirstCall, data: Any) -> None:  # noqa: ANN401
        case = self._case
        if case is None:
            return
        subject = Subject(
            self._candidate.func,
            (self._candidate.args, self._candidate.kwargs),
            device.synchronize,
            first.snapshot,
            case.file,
            [] if case.declared.unwritten else first.poisoned(),
            case.declared.deterministic,
            device.target(),
        )
        generators = Generators.now()
        repeats = Repeats(subject, data, list(first.unwritten))
        for finding in repeats.findings():
            self._tell(finding)
        case.unguarded += [note for note in repeats.notes if note not in case.unguarded]
        generators.put_back()  # what the test draws next is the same under any guards
        for finding in canary.findings(self._candidate.reachable):
            self._tell(finding)

    def _allowed(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Inputs that the test declares as returned in part, or updated."""
        if self._case is None:
            return []
        names, known = self._case.declared.aliases, declared.variables()
        if any(name not in known for name in names):  # the name of a result: it is not bound yet
            return inputs
        named = (*names, *self._case.declared.inout)
        return tensors_in([known.get(name) for name in named])

    def _tell_of_inputs(self, first: FirstCall, changed: list[torch.Tensor]) -> None:
        """Name inputs that flatter a kernel, and inputs that it changed without leave."""
        case = self._case
        if case is None:
            return
        if self._full or self._second:
            inputs = [t for t in self._candidate.reachable if not first.was_blank(t)]
            case.prints.append(Print.of(inputs))
        if self._second:
            return
        for finding in declared.findings(case.declared.inout, changed):
            self._tell(finding)
        if case.checked_inputs:
            return
        case.checked_inputs = True
        test = f"{case.file}::{case.function}"
        floats = [t for t in self._candidate.reachable if t.is_floating_point() and t.numel() > 1]
        if floats and not changed and all(first.was_blank(t) for t in floats):
            once(
                f"{test}: every float input holds one value throughout; "
                "kernels run faster on such data than on real data"
            )
        seed = torch.initial_seed()
        if seed != case.seed and seed == self._session.last_reseed:
            once(
                f"{test} seeds every case with {seed}: all cases get the "
                "same numbers; leave seeding to @benchmark, which derives it from the case"
            )
        self._session.last_reseed = None if seed == case.seed else seed
