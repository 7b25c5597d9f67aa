"""What fixtures gave a test, and what became of it: a kernel may not zero what it is judged on."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optest.log import once

if TYPE_CHECKING:
    import torch

    from optest.tensors import Snapshot

MARK = "writes_inputs"
_MOST_BYTES = 1 << 30  # a copy of more would take a test's memory from it


class Given:
    """The tensors that a test's fixtures hold, as they were when it began.

    Only what stands in tensors, containers and dataclasses: a module's parameters are its own.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._names: dict[int, str] = {}
        self._snapshot: Snapshot | None = None
        self._blank: set[int] = set()
        if "torch" not in sys.modules:
            return
        from optest.guards.outputs import is_blank
        from optest.tensors import Snapshot, span_bytes, tensors_in

        tensors: list[torch.Tensor] = []
        for name, value in arguments.items():
            found = tensors_in(value) if _holds_data(value) else []
            for index, tensor in enumerate(found):
                self._names.setdefault(id(tensor), f"{name}[{index}]" if len(found) > 1 else name)
                tensors.append(tensor)
        nbytes = span_bytes(tensors)
        if nbytes > _MOST_BYTES:
            once(f"inputs of {nbytes >> 20} MiB are not watched for a kernel that overwrites them")
            return
        self._blank = {id(tensor) for tensor in tensors if is_blank(tensor)}
        self._snapshot = Snapshot(tensors)

    def zeroed(self) -> list[str]:
        """Names of those that had contents and now hold one value throughout."""
        from optest.guards.outputs import is_blank

        return [self._names[id(t)] for t in self._changed() if is_blank(t)]

    def changed(self) -> list[str]:
        """Names of those whose contents are others now; a buffer that was blank is an output."""
        return [self._names[id(tensor)] for tensor in self._changed()]

    def _changed(self) -> list[torch.Tensor]:
        if self._snapshot is None:
            return []
        return [tensor for tensor in self._snapshot.changed() if id(tensor) not in self._blank]


def _holds_data(value: object) -> bool:
    torch = sys.modules["torch"]
    if isinstance(value, (torch.Tensor, list, tuple, Mapping)):
        return True
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
