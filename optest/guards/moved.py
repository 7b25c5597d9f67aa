"""The caller's tensors stay where they are: a kernel writes into them and exchanges none."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from optest.guards.alias import words
from optest.guards.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import torch

    from optest.tensors import Snapshot


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


def later(snapshot: Snapshot, known: Sequence[torch.Tensor]) -> list[Finding]:
    """What the first call left alone and another changed; it is given back.

    Args:
        snapshot: the caller's tensors before the first call.
        known: those of them that the first call changed.
    """
    at_first = {id(tensor) for tensor in known}
    late = [tensor for tensor in snapshot.changed() if id(tensor) not in at_first]
    if not late:
        return []
    snapshot.restore(late)
    return [
        Finding(
            "inputs",
            f"a later call changed a {words(late[0])} tensor that the first had left alone",
            "a reference made from it later would agree with anything",
        )
    ]


def beside(snapshot: Snapshot) -> Finding | None:
    """What was changed between the rows of a view, in memory that the call was not given."""
    found = snapshot.changed_beside()
    if not found:
        return None
    return Finding(
        "inputs",
        f"the candidate wrote between the rows of a {words(found[0])} tensor, a view",
        "what lies there is another tensor's, and was not given to it",
    )


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
