"""Collectives between the cards of this machine, from one process: NCCL's, or RCCL's under ROCm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence


def count() -> int:
    """How many cards this process sees."""
    return torch.cuda.device_count()


def spread(x: torch.Tensor) -> list[torch.Tensor]:
    """Slice r of x [ranks, ...] as a dense tensor of its own on card r.

    Raises:
        ValueError: there are fewer cards than ranks.
    """
    if len(x) > count():
        raise ValueError(
            f"x has {len(x)} ranks, expected at most the {count()} cards of this machine"
        )
    return [part.to(_device(card), copy=True) for card, part in enumerate(x)]


def gathered(parts: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    """What ``spread`` was given, on ``device``."""
    return torch.stack([part.to(device) for part in parts])


def all_reduce(x: Sequence[torch.Tensor], out: Sequence[torch.Tensor]) -> None:
    """Write the sum of all of x to each of out, on the current stream of each card.

    Args:
        x: the ranks' inputs, dense, of one shape and dtype, each on a card of its own.
        out: as x.
    """
    if x[0].numel():
        torch.cuda.nccl.all_reduce(x, out)  # type: ignore[no-untyped-call]


def _device(card: int) -> torch.device:
    return torch.device("cuda", card)
