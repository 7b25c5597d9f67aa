"""The variables that ``@benchmark(inout=…)`` names, found in the frames of the running test."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from optest.guards.alias import words
from optest.guards.finding import Finding
from optest.tensors import storage_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

_OURS = "optest."
_HOLDERS = (torch.Tensor, list, tuple, dict)


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


@dataclass(frozen=True)
class Reference:
    """A variable of the test in which a reference can be reached, and what to look for in it."""

    name: str
    shape: torch.Size
    dtype: torch.dtype


def references_to(tensor: torch.Tensor) -> set[Reference]:
    """The running test's variables in which the memory of ``tensor`` can be reached."""
    wanted = storage_of(tensor)
    return {
        Reference(name, tensor.shape, tensor.dtype)
        for name, value in everything().items()
        if any(storage_of(each) == wanted for each in _held_by(value))
    }


def found_again(references: set[Reference]) -> list[torch.Tensor]:
    """What these variables hold now, in a later pass of the test."""
    known = everything()
    return [
        tensor
        for each in references
        for tensor in _held_by(known.get(each.name))
        if (tensor.shape, tensor.dtype) == (each.shape, each.dtype)
    ]


def _held_by(value: object) -> list[torch.Tensor]:
    # Not what a function can reach: it would be hidden with the reference that it makes.
    return [] if callable(value) else tensors_in(value)


def everything() -> dict[str, object]:
    """Those variables, and what the test's modules hold that is no function, class or module."""
    seen: dict[str, object] = {}
    for frame in _frames():
        for name, value in frame.f_globals.items():
            if isinstance(value, _HOLDERS):
                seen.setdefault(name, value)
    return {**seen, **variables()}


def variables() -> dict[str, object]:
    """Local variables of the functions between the seam and here, the innermost winning."""
    seen: dict[str, object] = {}
    for frame in _frames():
        seen = {**frame.f_locals, **seen}
    return seen


def _frames() -> Iterator[FrameType]:
    """The frames of the running test between the seam and here, the innermost first."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to a caller
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module == "optest.cases.benchmark":
            return
        if not module.startswith(_OURS):
            yield frame
        frame = frame.f_back
