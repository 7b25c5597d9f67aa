"""The layers of a mixture of experts behind the router: csrc on the CPU, Triton on a GPU."""

from __future__ import annotations

from typing import NamedTuple

import torch

from optest.ops.dispatch import kernels


class Sorted(NamedTuple):
    """Pairs of a token and an expert by expert, padded to blocks; see ``aiter_ref.moe.Sorted``."""

    ids: torch.Tensor
    weights: torch.Tensor
    experts: torch.Tensor
    total: torch.Tensor


def sorted_buffers(
    pairs: int, experts: int, block: int, dtype: torch.dtype, device: torch.device | str
) -> Sorted:
    """Room for ``pairs`` sorted pairs with weights of ``dtype``, whichever experts they have."""
    capacity = (pairs + min(pairs, experts) * (block - 1)) // block * block
    shapes = (
        (capacity, torch.int32),
        (capacity, dtype),
        (capacity // block, torch.int32),
        (1, torch.int32),
    )
    return Sorted(*(torch.empty(size, dtype=kind, device=device) for size, kind in shapes))


def moe_sorting(
    ids: torch.Tensor,
    weights: torch.Tensor,
    experts: int,
    block: int,
    *,
    out: Sorted | None = None,
) -> Sorted:
    """Sort a router's pairs by expert: ids [m, topk] int32, weights [m, topk] bf16/fp16/fp32.

    Pairs whose id lies outside of 0 to ``experts - 1`` are left out.

    Returns:
        ``out``, where it is given (see ``sorted_buffers``).
    """
    if out is None:
        out = sorted_buffers(ids.numel(), experts, block, weights.dtype, ids.device)
    kernels(ids, "moe").moe_sorting(*out, ids, weights, experts, block)
    return out
