"""Sums over the ranks of a group of processes."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def all_reduce(x: torch.Tensor) -> torch.Tensor:
    """What every rank holds after an all-reduce: the sum of all ranks' inputs, rounded once.

    x [ranks, ...] bf16/fp16/fp32, one slice a rank -> the same shape and dtype. fp32 inside, fp64
    for fp32. Source: MPI 4.1, section 6.9.6, MPI_Allreduce with MPI_SUM.
    """
    wide = x.double() if x.dtype == torch.float32 else x.float()
    return wide.sum(0).to(x.dtype).expand_as(x).clone()


def all_reduce_cost(ranks: int, elements: int, itemsize: int) -> Cost:
    """Of ``all_reduce`` of ``elements`` a rank, over all ranks: a sum an element of all inputs.

    Each rank reads its own and writes the result. What crosses between them,
    2 (ranks - 1) / ranks of an input at the least (Patarasuk and Yuan, 2009), is not counted.
    """
    return Cost(ranks * elements, 2 * ranks * elements * itemsize)
