"""Whether a kernel still gives, once it was timed, what it gave in its first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from optest.errors import RefusedError
from optest.tensors import tensors_in
from optest.timing.outputs import copies, same, telling

_MOST_BYTES = 1 << 30  # of copies; of more, memory would be taken from the kernel
_LARGEST_ERROR = 0.5  # of the first answer, by norm: no rounding and no other algorithm does that


class FirstAnswer:
    """What the first call gave: tensors that it returned, and arguments that it wrote."""

    def __init__(self, returned: object, written: Sequence[torch.Tensor]) -> None:
        self._written = list(written)
        self._values = self._answer(returned)

    def _answer(self, returned: object) -> list[torch.Tensor]:
        found = [*tensors_in(returned), *self._written]
        return copies(found) if sum(tensor.nbytes for tensor in found) <= _MOST_BYTES else []

    def require_still(self, call: Callable[[], object]) -> None:
        """Call the kernel again, twice where it gives something else.

        A kernel that draws numbers or keeps a state gives something else each time; one that stops
        working gives the same each time, and not what it gave at first.

        Args:
            call: the kernel on its arguments as they were given.

        Raises:
            RefusedError: the answer is another one, and stays that.
        """
        if not self._values:
            return
        now = self._answer(call())
        if not _is_far(self._values, now):
            return
        if same(now, self._answer(call())):
            raise RefusedError(
                "the kernel does not give any more, once it was timed, what it gave in its first "
                "call: it does its work in early calls only"
            )


def _is_far(first: Sequence[torch.Tensor], now: Sequence[torch.Tensor]) -> bool:
    """Whether nothing that could tell is as it was: a workspace may hold what memory held."""
    if [(t.shape, t.dtype) for t in first] != [(t.shape, t.dtype) for t in now]:
        return True
    apart = [_apart(a, b) for a, b in zip(first, now, strict=True)]
    kept = [a for a, far in zip(first, apart, strict=True) if not far]
    return any(apart) and not telling(kept)


def _apart(first: torch.Tensor, now: torch.Tensor) -> bool:
    if same([first], [now]):
        return False
    try:
        a, b = (torch.nan_to_num(_real(tensor)) for tensor in (first, now))
    except (NotImplementedError, RuntimeError):  # dtypes that torch converts to nothing
        return True
    return bool((a - b).norm() > _LARGEST_ERROR * a.norm())


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double()
