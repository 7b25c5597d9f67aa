"""What one call of a candidate produced, held out to whoever would change it before the test looks.

A session with a ``tamper`` calls each candidate once, neither timed nor guarded, and tells the
tamper of each check as well.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from optest.tensors import storage_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from optest.checking import Verdict
    from optest.tensors import Snapshot


@dataclass(frozen=True)
class Produced:
    """What a candidate returned, and what its tensors held before the call.

    Attributes:
        func: the candidate.
        data: what it returned.
        before: the tensors it could reach, as they were; outputs were blank.
    """

    func: Callable[..., Any]
    data: Any
    before: Snapshot

    @functools.cached_property
    def written(self) -> list[torch.Tensor]:
        """Tensors of the caller that the call changed."""
        return self.before.changed()

    @functools.cached_property
    def returned(self) -> list[torch.Tensor]:
        """Tensors of the result that are not the caller's memory."""
        given = {storage_of(tensor) for tensor in self.before.tensors}
        return [tensor for tensor in tensors_in(self.data) if storage_of(tensor) not in given]


@dataclass(frozen=True)
class Compared:
    """One check that the test made.

    Attributes:
        verdict: what it found, under the name that the test gave it.
        candidate: the tensor that was compared with the reference.
        mask: where it was compared, as the test gave it; None everywhere.
    """

    verdict: Verdict
    candidate: torch.Tensor
    mask: torch.Tensor | None


class Tamper(Protocol):
    """Changes what a candidate produced, in place or by returning something else."""

    def __call__(self, produced: Produced, /) -> Any:  # noqa: ANN401 - what a kernel returns
        """The result that the test is given in place of ``produced.data``."""

    def compared(self, compared: Compared, /) -> None:
        """Hear of a check of the test."""
