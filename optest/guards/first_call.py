"""A candidate's first call: outputs blank, memory poisoned, and what became of its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optest.guards import poison
from optest.tensors import Snapshot, same_bytes, storage_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from optest.guards.outputs import Outputs


class FirstCall:
    """Calls a candidate once, or again where one call leaves a doubt.

    Attributes:
        snapshot: what the reachable tensors held before the call that counts.
        changed: those of them that the call changed.
        unwritten: position among the tensors of the result, and where that one was left unwritten.
    """

    def __init__(
        self, call: Callable[[], Any], reachable: list[torch.Tensor], outputs: Outputs, device: str
    ) -> None:
        self._call, self._reachable, self._device = call, reachable, device
        self._outputs = outputs
        self._blanked = outputs.give_back(reachable)
        self._memory = {storage_of(tensor) for tensor in reachable}
        self.snapshot = Snapshot(reachable)
        self._refilled: list[torch.Tensor] = []
        self.changed: list[torch.Tensor] = []
        self.unwritten: dict[int, torch.Tensor] = {}

    def run(self) -> Any:  # noqa: ANN401 - what a kernel returns
        """The result; the reachable tensors end as after a single call."""
        data = self._poisoned(poison.FIRST)
        data = self._with_inputs(data)
        data = self._confirmed(data)
        self.changed = self.snapshot.changed()
        return data

    def changed_inputs(self) -> list[torch.Tensor]:
        """Tensors with contents that the call changed; outputs, blank before, are none of them."""
        return [t for t in self.changed if not self._outputs.knows(t)]

    def was_blank(self, tensor: torch.Tensor) -> bool:
        """Whether it held one value throughout when it was first seen."""
        return self._outputs.knows(tensor)

    def poisoned(self) -> list[torch.Tensor]:
        """Output buffers among the reachable tensors that held poison before the call.

        Not among them is what an earlier candidate wrote for this one to read.
        """
        inputs = {storage_of(tensor) for tensor in self._refilled}
        return [
            tensor
            for tensor in self._reachable
            if self._outputs.poisoned(tensor) and storage_of(tensor) not in inputs
        ]

    def mark(self, data: object) -> int:
        """Put a value that fails where ``data`` was left unwritten; returns how many elements.

        ``data`` may come from a later call: its memory may hold the right answer of an earlier one.
        """
        own = self._own(data) if self.unwritten else []
        masks = self.unwritten.items()
        return sum(poison.mark(own[at], mask) for at, mask in masks if at < len(own))

    def _poisoned(self, byte: int) -> Any:  # noqa: ANN401
        with poison.fresh_memory_poisoned(byte, device=self._device):
            return self._call()

    def _own(self, data: object) -> list[torch.Tensor]:
        """Tensors of a result that are not the caller's memory.

        The caller's buffers need no mask: they are given back blank before each call that counts.
        """
        return [tensor for tensor in tensors_in(data) if storage_of(tensor) not in self._memory]

    def _with_inputs(self, data: Any) -> Any:  # noqa: ANN401
        """Call again with their contents where buffers that were blanked turn out to be inputs.

        An earlier stage's output is the next stage's input. A candidate that leaves such a buffer
        alone, and whose result depends on what is in it, reads it.
        """
        if not self._blanked:
            return data
        results = {storage_of(tensor) for tensor in tensors_in(data)}
        idle = [b for b in self._blanked if storage_of(b.tensor) not in results and b.untouched()]
        if not idle or not results:
            return data
        blank, before = [t.clone() for t in tensors_in(data)], self.snapshot
        before.restore()
        for each in idle:
            each.refill()
        self.snapshot = Snapshot(self._reachable)
        data = self._poisoned(poison.FIRST)
        again = tensors_in(data)
        if len(again) == len(blank) and all(map(same_bytes, again, blank)):
            self.snapshot = before
            for each in idle:
                each.blank()
        else:
            self._refilled = [each.tensor for each in idle]
        return data

    def _confirmed(self, data: Any) -> Any:  # noqa: ANN401
        """Call on other poison where the result holds what the first was made of."""
        first = [poison.holding(tensor, poison.FIRST) for tensor in self._own(data)]
        if all(mask is None for mask in first):
            return data
        self.snapshot.restore()
        data = self._poisoned(poison.SECOND)
        own = self._own(data)
        for at, mask in enumerate(first[: len(own)]):
            second = poison.holding(own[at], poison.SECOND)
            if mask is not None and second is not None and mask.shape == second.shape:
                both = mask & second
                if bool(both.any()):
                    self.unwritten[at] = both
        return data
