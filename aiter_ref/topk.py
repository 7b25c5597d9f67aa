"""The k largest of each row, and how a choice of them is judged where values tie."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def topk_per_row(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
    """Columns of the ``k`` largest of the first ``lengths[i]`` scores of row i.

    As sparse attention takes them (DeepSeek-V3.2's indexer): the larger first, of equal ones the
    lower column first; a row shorter than ``k`` is filled up with -1. A NaN counts as larger than
    all numbers. Which of equal scores a kernel takes, and in which order it names its columns, is
    its own affair: ``picked`` judges both.

    scores [m, n] bf16/fp16/fp32, lengths [m] int32, each at most n -> [m, k] int32.
    """
    m, n = scores.shape
    columns = torch.arange(n, device=scores.device)
    inside = columns < lengths[:, None]
    # Stable sorts, the less important key first: what lies outside goes behind what is inside.
    order = scores.float().sort(dim=-1, descending=True, stable=True).indices
    outside = ~inside.gather(1, order)
    order = order.gather(1, outside.to(torch.int8).sort(dim=-1, stable=True).indices)
    ids = torch.full((m, k), -1, dtype=torch.int32, device=scores.device)
    taken = min(n, k)
    ids[:, :taken] = torch.where(columns < lengths[:, None], order, -1)[:, :taken].int()
    return ids


def picked(scores: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Scores that ``ids`` point at; two right choices among ties give the same values.

    NaN stands where an id lies outside its row or is one that the row has named before. -1, which
    fills up, gives -Inf each time.

    scores [m, n] of any dtype, ids [m, k] int32 or int64 -> [m, k] fp32.
    """
    n = scores.shape[1]
    wide = ids.long()
    padded = torch.nn.functional.pad(scores.float(), (1, 1), value=float("nan"))
    padded[:, 0] = -torch.inf
    found = padded.gather(1, wide.clamp(-1, n) + 1)
    found[wide < -1] = torch.nan
    ordered, places = wide.sort(dim=1, stable=True)
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    repeated = torch.zeros_like(again).scatter_(1, places, again)
    return found.masked_fill(repeated, torch.nan)


def topk_per_row_cost(lengths: torch.Tensor, k: int, itemsize: int) -> Cost:
    """Of ``topk_per_row``: each score that counts is read and compared once at the least.

    ``lengths`` are those of the rows; of ids all ``k`` are written in each.
    """
    scores, rows = int(lengths.sum()), lengths.numel()
    return Cost(scores, scores * itemsize + rows * k * 4 + lengths.nbytes)
