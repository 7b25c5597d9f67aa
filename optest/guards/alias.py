"""Results that lie in the memory of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.guards.finding import Finding
from optest.tensors import storage_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch


def finding(
    data: object, inputs: Iterable[torch.Tensor], allowed: Iterable[torch.Tensor] = ()
) -> Finding | None:
    """The first tensor of a result that shares memory with one of ``inputs``.

    ``allowed`` are those that the test declares; outputs, and what the call changed, are none.
    """
    given = {storage_of(tensor): tensor for tensor in inputs}
    for tensor in allowed:
        given.pop(storage_of(tensor), None)
    for result in tensors_in(data):
        held = given.get(storage_of(result)) if result.numel() else None
        if held is not None:
            return Finding(
                "alias",
                f"the candidate returned {words(result)} in the memory of an input {words(held)}",
                "it may have computed nothing; where a view of the input is the operator's result, "
                "name it in @benchmark(aliases=(…,))",
                declarable=True,
            )
    return None


def of_reference(data: object, references: Iterable[torch.Tensor]) -> Finding | None:
    """Whether a result lies in the memory of one of ``references``, which nobody gave away."""
    known = {storage_of(tensor) for tensor in references}
    if not known or not any(storage_of(tensor) in known for tensor in tensors_in(data)):
        return None
    return Finding(
        "reference",
        "the candidate returned the test's own reference",
        "it found it where it was not given it, and computed nothing",
    )


def words(tensor: torch.Tensor) -> str:
    """``16x64 bf16``: shape and dtype of a tensor for a sentence."""
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    return f"{shape} {str(tensor.dtype).removeprefix('torch.')}"
