"""The caller's tensors stay where they are: a kernel writes into them and exchanges none."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from optest.guards.alias import words
from optest.guards.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import torch


@contextmanager
def watched(tensors: Iterable[torch.Tensor], tell: Callable[[Finding], object]) -> Iterator[None]:
    """Tell of the first of ``tensors`` that lies in other memory or has another shape after it."""
    before = [(tensor, _place(tensor)) for tensor in tensors]
    yield
    for tensor, place in before:
        if _place(tensor) != place:
            tell(
                Finding(
                    "inputs",
                    f"the candidate put a {words(tensor)} in place of a tensor that it was given",
                    "whoever holds the memory itself, as a view or a pointer, sees no result there",
                )
            )
            return


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
