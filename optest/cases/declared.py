"""The variables that ``@benchmark(inout=…)`` names, found in the frames of the running test."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from optest.guards.alias import words
from optest.guards.finding import Finding
from optest.tensors import storage_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    import torch

_OURS = "optest."


def findings(inout: Sequence[str], changed: Sequence[torch.Tensor]) -> list[Finding]:
    """What is wrong about the inputs that a candidate changed; usually nothing."""
    if not inout and not changed:
        return []
    known = variables()
    missing = [name for name in inout if name not in known]
    allowed = {storage_of(t) for t in tensors_in([known[n] for n in inout if n in known])}
    # One element alone does not show whether it is an input or a buffer for a scale.
    wrong = [t for t in changed if t.numel() > 1 and storage_of(t) not in allowed]
    return [*map(_misnamed, missing), *map(_changed, wrong)]


def _misnamed(name: str) -> Finding:
    return Finding(
        "inputs",
        f"@benchmark(inout=…) names {name!r}",
        "no variable of the test has that name",
        declarable=True,
    )


def _changed(tensor: torch.Tensor) -> Finding:
    return Finding(
        "inputs",
        f"a candidate changed a {words(tensor)} tensor that held its input",
        "a reference made from it later would agree with anything; name it in "
        "@benchmark(inout=(…,)) if that is the operator's work",
        declarable=True,
    )


def names_of(tensor: torch.Tensor) -> set[str]:
    """Names of the running test's variables in which the memory of ``tensor`` can be reached."""
    wanted = storage_of(tensor)
    return {
        name
        for name, value in variables().items()
        if any(storage_of(each) == wanted for each in _held_by(value))
    }


def _held_by(value: object) -> list[torch.Tensor]:
    # Not what a function can reach: it would be hidden with the reference that it makes.
    return [] if callable(value) else tensors_in(value)


def variables() -> dict[str, object]:
    """Local variables of the functions between the seam and here, the innermost winning."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to a caller
    seen: dict[str, object] = {}
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module == "optest.cases.benchmark":
            break
        if not module.startswith(_OURS):
            seen = {**frame.f_locals, **seen}
        frame = frame.f_back
    return seen
