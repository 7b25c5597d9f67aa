"""What a candidate was not given is not there for it to find."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from optest.guards import poison
from optest.tensors import Snapshot, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch


@contextmanager
def hidden(
    tensors: Iterable[torch.Tensor], given: Iterable[torch.Tensor]
) -> Iterator[list[torch.Tensor]]:
    """Inside, ``tensors`` hold poison; those that share memory with one of ``given`` stay.

    Yields those that hold poison.
    """
    known = {storage_of(tensor) for tensor in given}
    apart = [t for t in tensors if storage_of(t) not in known and not (t.is_conj() or t.is_neg())]
    snapshot = Snapshot(apart)
    for tensor in apart:
        poison.fill(tensor, poison.FIRST)
    try:
        yield apart
    finally:
        snapshot.restore()
