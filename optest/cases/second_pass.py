"""A case run a second time on new random inputs, judged by the test's own reference and checks."""

from __future__ import annotations

import contextlib
import io
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optest.cases import course, device, state, text
from optest.cases.case import Case
from optest.errors import CheckFailedError
from optest.guards import poison
from optest.guards.finding import Finding
from optest.guards.fresh_inputs import FreshInputs
from optest.guards.outputs import Outputs
from optest.guards.rng import Generators
from optest.log import logger, once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import torch

    from optest.cases.session import Session

_SILENT = 100
_PLACES = 65_536
# Mixed into the seed of NumPy's and Python's generators; torch's keep theirs and jump ahead.
_OTHER = 0x5EED


@dataclass(frozen=True)
class Print:
    """Some of the bits of one candidate's inputs, summed up."""

    sums: tuple[int, ...]

    @classmethod
    def of(cls, tensors: Iterable[torch.Tensor]) -> Print:
        """Of the tensors whose bits can be read, from places spread over each of them."""
        seen = (poison.bits(tensor) for tensor in tensors)
        return cls(tuple(int(_spread(bits).sum()) for bits in seen if bits is not None))


def _spread(bits: torch.Tensor) -> torch.Tensor:
    most = max(int(_PLACES ** (1 / max(bits.dim(), 1))), 1)
    return bits[tuple(slice(None, None, -(-size // most) or 1) for size in bits.shape)]


def run(session: Session, case: Case, byte: int | None, invoke: Callable[[], object]) -> None:
    """Run the test function again and tell ``case`` what went wrong that had gone right before.

    Args:
        session: its running case is the second one meanwhile.
        case: the case, after its first pass.
        byte: poison of the memory that the test allocates.
        invoke: calls the test function with the case's arguments.
    """
    second = Case(case.file, case.function, case.arguments, case.id, case.seed, case.declared)
    second.first, second.fresh, second.outputs = case, FreshInputs(), Outputs()
    case.outputs = None  # it holds the buffers of the first pass
    session.case = second
    generators = Generators.now()
    raised = ""
    try:
        memory = poison.fresh_memory_poisoned(byte, device=device.target(), waits=True)
        with _silence(), second.fresh, memory:
            state.seed_all(case.seed, others=case.seed ^ _OTHER)
            invoke()
    except CheckFailedError:
        pass  # the verdict is recorded already
    except BaseException as error:
        if course.is_skip(error):
            case.unguarded.append(f"fresh inputs: the test skipped its second pass: {error}")
        elif isinstance(error, Exception) or course.belongs_to_pytest(error):
            raised = text.of_error(error)
        else:
            raise
    finally:
        session.case = case
        generators.put_back()  # what is drawn after the case is the same under any guards
        _tell(session, case, second, raised)  # what was found before a skip as well


@contextmanager
def _silence() -> Iterator[None]:
    """What a check says of the second pass is told once, as a finding; what a test prints, once."""
    level = logger.level
    logger.setLevel(_SILENT)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def _tell(session: Session, case: Case, second: Case, raised: str) -> None:
    for finding in second.findings:
        session.note_finding(finding)
    told = {str(finding) for finding in second.findings}
    reasons = [reason for reason in second.failures if reason not in told]
    if raised and not reasons:
        reasons = [f"the case raised {raised}"]
    for reason in dict.fromkeys(reasons):
        session.note_finding(
            Finding(
                "fresh inputs",
                reason,
                "right on the first inputs and wrong on new ones of the same shapes: it does not "
                "compute its result from what it is given",
            )
        )
    if case.prints and case.prints == second.prints:
        note = "fresh inputs: no candidate was given other inputs in the second pass"
        case.unguarded.append(note)
        once(f"{case.file}::{case.function}: unguarded: {note}")
