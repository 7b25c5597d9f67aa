"""An operator, what it must move, and whom it is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

SHARE_OF_COPY, SHARE_OF_COPY_FP8 = 0.8, 0.6
OF_INDUCTOR = 0.95
OF_EAGER_FP8 = 5.0

Call = Callable[[], object]


@dataclass(frozen=True)
class Rival:
    """Another way to the same result.

    Attributes:
        at_least: how many times as fast as it ours must be; 0 where it is only shown.
        slow: far slower than ours, so that it takes part in a third of the rounds.
    """

    call: Call
    at_least: float = 0.0
    slow: bool = False


@dataclass(frozen=True)
class Contest:
    """Ours and its rivals, on the same inputs.

    Attributes:
        shape: as the table says it.
        nbytes: what must move at least.
        of_copy: share of the copy bandwidth it must reach; 0 where arithmetic is the limit.
    """

    shape: str
    nbytes: int
    ours: Call
    rivals: Mapping[str, Rival]
    of_copy: float = SHARE_OF_COPY


Maker = Callable[[], Contest]
Makers = dict[str, Maker]  # by the operator's name, so that only those that run draw their inputs


def against_torch(
    way: Callable[..., object], *args: object, eager: float = 0.0, slow: bool = False
) -> dict[str, Rival]:
    """What torch offers, ``way`` of ``args``: compiled (``slow`` too, where it says so), eager."""
    return {
        **against_inductor(way, *args, slow=slow),
        "eager": Rival(lambda: way(*args), eager, slow=True),
    }


def against_inductor(
    way: Callable[..., object], *args: object, slow: bool = False
) -> dict[str, Rival]:
    """``way`` compiled, where eager would need several times the memory."""
    compiled = torch.compile(way, dynamic=False)
    return {"inductor": Rival(lambda: compiled(*args), OF_INDUCTOR, slow)}
