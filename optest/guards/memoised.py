"""A candidate called on inputs that were changed in place: does its result follow them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optest.errors import MemoisedError
from optest.guards.finding import Finding
from optest.timing.clock import Reading, Target
from optest.timing.controls import Controls
from optest.timing.inputs import Inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optest.tensors import Snapshot
    from optest.timing.clock import Arguments, Before


class _NoClock:
    """Stands where no call is timed: whether answers are remembered shows in the answers too."""

    name, resolution_us, reads_host = "none", 1.0, False

    def time(self, _targets: Sequence[Target], _rounds: int, _before: Before) -> list[Reading]:
        """Never asked."""
        raise AssertionError


def finding(error: MemoisedError) -> Finding:
    """What a control call has shown."""
    means = "on data that it has not seen it is slower, or wrong"
    return Finding("memoised", str(error), means)


def look(
    func: Any,  # noqa: ANN401 - any kernel
    arguments: Arguments,
    snapshot: Snapshot,
    data: Any,  # noqa: ANN401
) -> tuple[Finding | None, list[str]]:
    """Call ``func`` on changed inputs; the tensors of ``snapshot`` are given back.

    Args:
        func: the candidate.
        arguments: its positional and keyword arguments.
        snapshot: the tensors that it can reach, as they were before its first call.
        data: what it returned for the inputs as given; they hold now what that call left in them.

    Returns:
        A finding where its answers are remembered, and notes on what could not be looked at.
    """
    inputs = Inputs(snapshot)
    inputs.find_written()
    controls = Controls(_NoClock(), Target(func, (arguments,)), None, inputs)
    try:
        controls.run(data, 0.0)
    except MemoisedError as error:
        return finding(error), controls.notes
    return None, controls.notes
