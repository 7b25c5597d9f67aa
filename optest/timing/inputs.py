"""The caller's tensors: which of them the function writes, and how they are given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from optest.tensors import Snapshot


class Inputs:
    """Tensors reachable from a call, with what they held before it.

    Attributes:
        snapshot: the caller's tensors.
        written: those of them that the function was seen to write in place.
        compared: whether that has been looked for, after a first call.
        copies: the tensors of further argument sets.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.written: list[torch.Tensor] = []
        self.compared = False
        self.copies: list[Snapshot] = []

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Every tensor that the snapshot covers."""
        return self.snapshot.tensors

    def find_written(self) -> None:
        """Compare with the snapshot; what differs has been written in place."""
        self.compared = True
        known = {id(tensor) for tensor in self.written}
        self.written += [each for each in self.snapshot.changed() if id(each) not in known]

    def restore_written(self) -> None:
        """Give back the tensors that are known to be written; next to free where there are none."""
        if self.written:
            self.snapshot.restore(self.written)
            for copy in self.copies:
                copy.restore()

    def restore(self) -> None:
        """Give back whatever differs from the snapshot, known or not."""
        self.find_written()
        self.restore_written()
