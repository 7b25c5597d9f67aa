"""Standing at the seam: one tamper looks at what candidates make, one puts a mutant into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from optest.cases import declared
from optest.cases import session as sessions
from optest.cases.case import Declared
from optest.mutate import names
from optest.mutate.gross import Material
from optest.mutate.nested import replaced
from optest.mutate.outputs import bits_of, left_out, outputs_of, real_of
from optest.tensors import storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optest.cases.tamper import Compared, Produced
    from optest.mutate.gross import Mutant
    from optest.mutate.outputs import Output
    from optest.mutate.region import Region


@dataclass(frozen=True, eq=False)
class Target:
    """One output of one candidate.

    Attributes:
        case: id of the case.
        candidate: as the test names it.
        output: as the test names it.
        call: which call of ``run_perftest`` in the unit, from 0.
        place: which output of that call, from 0.
        elements: how many of them a mutant may touch.
        dtype: of the output.
        left_out: elements that a check leaves out by its mask, of the output's shape.
    """

    case: str
    candidate: str
    output: str
    call: int
    place: int
    elements: int
    dtype: torch.dtype
    left_out: torch.Tensor | None


@dataclass
class Call:
    """What one call of ``run_perftest`` made, and its bits then."""

    case: str
    candidate: str
    outputs: list[Output]
    bits: list[torch.Tensor]
    checks: list[Compared] = field(default_factory=list)

    def looking_at(self, output: Output) -> list[Compared]:
        """The checks that look at an output of it, by memory, or else by shape."""
        return [check for check in self.checks if self._looks_at(check, output)]

    def _looks_at(self, check: Compared, output: Output) -> bool:
        memory = storage_of(check.candidate)
        if any(storage_of(each.tensor) == memory for each in self.outputs):
            return storage_of(output.tensor) == memory
        return check.candidate.shape == output.tensor.shape


class Recorder:
    """Changes nothing: keeps what each candidate made and which checks looked at it.

    The tensors are held, so that no later one can come to lie at the same address.

    Attributes:
        calls: one for each call of ``run_perftest``.
        checks: every check, in the order made.
        problems: outputs that cannot be mutated, in words.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.checks: list[Compared] = []
        self.problems: list[str] = []

    def __call__(self, produced: Produced, /) -> Any:  # noqa: ANN401 - what a kernel returns
        """Keep what was produced."""
        case, said = _running()
        name = names.candidate_name(produced.func, declared.variables(), len(self.calls))
        outputs, problems = outputs_of(produced, said)
        self.problems += [f"{case}: {name}: {problem}" for problem in problems]
        if not outputs and not problems:
            self.problems.append(f"{case}: {name}: no output was seen, nothing was mutated")
        bits = [output.bits.clone() for output in outputs]
        self.calls.append(Call(case, name, outputs, bits))
        return produced.data

    def compared(self, compared: Compared, /) -> None:
        """Keep the check with the call whose output it looks at."""
        self.checks.append(compared)
        call = self._looked_at(compared)
        if call is not None:
            call.checks.append(compared)

    def _looked_at(self, compared: Compared) -> Call | None:
        """The last call that made this memory; of values made from outputs, the last of its shape.

        Candidates may write one buffer by turns.
        """
        memory, shape = storage_of(compared.candidate), compared.candidate.shape
        for call in reversed(self.calls):
            if any(storage_of(output.tensor) == memory for output in call.outputs):
                return call
        for call in reversed(self.calls):
            if any(output.tensor.shape == shape for output in call.outputs):
                return call
        return None

    def targets(self) -> Iterator[Target]:
        """Every output that a mutant can be put into."""
        for at, call in enumerate(self.calls):
            for place, output in enumerate(call.outputs):
                out = _left_out(output, call.looking_at(output))
                region = output.region(out)
                if region is not None:
                    yield Target(
                        call.case,
                        call.candidate,
                        output.name,
                        at,
                        place,
                        region.index.numel(),
                        output.tensor.dtype,
                        out,
                    )


class Mutation:
    """Puts one mutant into one output; ``undo`` gives back what a candidate may keep.

    Attributes:
        applied: whether the output became another than it was.
        missing: whether there was no such output in this run.
        checks: every check, in the order made.
    """

    def __init__(self, target: Target, mutant: Mutant, stale: torch.Tensor | None = None) -> None:
        self._target, self._mutant, self._stale = target, mutant, stale
        self._calls = 0
        self._kept: tuple[torch.Tensor, torch.Tensor] | None = None
        self.applied = False
        self.missing = True
        self.checks: list[Compared] = []

    def __call__(self, produced: Produced, /) -> Any:  # noqa: ANN401 - what a kernel returns
        """Mutate the output where this is the call that was asked for."""
        at, self._calls = self._calls, self._calls + 1
        if at == self._target.call:
            outputs, _ = outputs_of(produced, _running()[1])
            if self._target.place < len(outputs):
                return self._mutated(produced.data, outputs[self._target.place])
        return produced.data

    def compared(self, compared: Compared, /) -> None:
        """Keep the check."""
        self.checks.append(compared)

    def undo(self) -> None:
        """Write back what was there: a candidate may hand out memory that it keeps."""
        if self._kept is not None:
            bits, right = self._kept
            with torch.inference_mode():
                bits.copy_(right)

    def _mutated(self, data: Any, output: Output) -> Any:  # noqa: ANN401
        region = output.region(self._target.left_out)
        if region is None:
            return data
        self.missing = False
        material = self._material(output, region)
        wrong = self._mutant(material)
        if wrong is None or bool(material.values.same(wrong).all()):
            return data
        self.applied = True
        if output.view is not None:
            copy = output.view.detach().clone()
            region.write(bits_of(real_of(copy)), wrong)
            return replaced(data, output.view, copy)
        self._kept = output.bits, output.bits.clone()
        region.write(output.bits, wrong)
        return data

    def _material(self, output: Output, region: Region) -> Material:
        bits, stale = output.bits, self._stale
        return Material(
            region.read(bits),
            region.read(output.before),
            region.read(stale) if stale is not None and stale.shape == bits.shape else None,
            output.tensor.dtype,
        )


def _left_out(output: Output, checks: list[Compared]) -> torch.Tensor | None:
    """What every check that looks at the output leaves out by its mask."""
    masks = [
        None if check.mask is None else left_out(output, check.candidate, check.mask)
        for check in checks
    ]
    known = [mask for mask in masks if mask is not None]
    return torch.stack(known).all(0) if known and len(known) == len(masks) else None


def _running() -> tuple[str, Declared]:
    case = sessions.current().case
    return (case.id, case.declared) if case is not None else ("(outside any case)", Declared())
