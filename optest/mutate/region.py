"""The elements of one output that a mutant may touch, as a grid of rows and columns."""

from __future__ import annotations

from dataclasses import dataclass

import torch

# A kernel writes here and there what was there before. A row of which most has changed was written.
_MOST = 0.9


@dataclass(frozen=True)
class Region:
    """Positions ``index [r, c]`` in the flat order of an output's elements.

    ``r`` rows of ``c`` neighbours in the last dimension; in a tensor of one dimension every element
    is a row.
    """

    index: torch.Tensor

    def read(self, bits: torch.Tensor) -> torch.Tensor:
        """The elements ``[r, c]`` of an output, given its bits."""
        return bits.reshape(-1)[self.index]

    def write(self, bits: torch.Tensor, grid: torch.Tensor) -> None:
        """Replace the elements, in the memory of the output; everything else stays."""
        flat = bits.reshape(-1).clone()
        flat[self.index.reshape(-1)] = grid.reshape(-1)
        with torch.inference_mode():
            bits.copy_(flat.view(bits.shape))


def written(changed: torch.Tensor, *, exact: bool) -> torch.Tensor:
    """Which elements a call wrote, where ``changed`` says which hold other bits than before.

    An element may hold by chance what it held before: unless ``exact``, rows of which nearly all
    has changed count whole.
    """
    if exact or changed.dim() == 0 or changed.numel() == 0:
        return changed
    rows = changed.reshape(-1, changed.shape[-1])
    whole = rows.float().mean(1, keepdim=True) >= _MOST
    return (rows | whole).reshape(changed.shape)


def region(allowed: torch.Tensor) -> Region | None:
    """The region of the elements that ``allowed`` marks; None where it marks none.

    Rows of unequal length have no columns: there every element is a row.
    """
    columns = allowed.shape[-1] if allowed.dim() > 1 else 1
    where = allowed.reshape(-1).nonzero().squeeze(1)
    if not where.numel():
        return None
    counts = torch.bincount(where // columns)
    counts = counts[counts > 0]
    even = bool((counts == counts[0]).all())
    return Region(where.reshape(-1, int(counts[0]) if even else 1))
