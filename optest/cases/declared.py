"""The variables that ``@benchmark(inout=…)`` names, found in the frames of the running test."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from optest.tensors import storage_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    import torch

_OURS = "optest."


def complaints(test: str, inout: Sequence[str], changed: Sequence[torch.Tensor]) -> list[str]:
    """What is wrong about the inputs that a candidate changed, in words; usually nothing."""
    if not inout and not changed:
        return []
    found = {name: value for name, value in _test_locals().items() if name in inout}
    missing = [name for name in inout if name not in found]
    said = [
        f"{test}: @benchmark(inout=…) names {name!r}, but no variable of the test has that name"
        for name in missing
    ]
    allowed = {storage_of(tensor) for tensor in tensors_in(list(found.values()))}
    for tensor in changed:
        # One element alone does not show whether it is an input or a buffer for a scale.
        if tensor.numel() > 1 and storage_of(tensor) not in allowed:
            shape = "x".join(map(str, tensor.shape))
            said.append(
                f"{test}: a candidate changed a {shape} {str(tensor.dtype).removeprefix('torch.')} "
                "tensor that held its input; a reference made from it later would agree with "
                "anything. Name it in @benchmark(inout=(…,)) if that is the operator's work"
            )
    return said


def _test_locals() -> dict[str, object]:
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
