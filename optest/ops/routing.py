"""Mixture-of-experts routing (``aiter_ref.routing``): csrc on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch

from optest.ops.dispatch import kernels

_Pairs = tuple[torch.Tensor, torch.Tensor]


def topk_softmax(
    gating: torch.Tensor,
    topk: int,
    *,
    renormalize: bool,
    weights: torch.Tensor | None = None,
    ids: torch.Tensor | None = None,
) -> _Pairs:
    """Largest ``topk`` of the softmax: gating [m, n] bf16/fp16/fp32, rows of any stride.

    Returns:
        weights [m, topk] fp32 and ids [m, topk] int32; the best first, of equal ones the lower
        expert.
    """
    weights, ids = _buffers(gating, topk, weights, ids)
    kernels(gating, "routing").topk_softmax(weights, ids, gating, renormalize)
    return weights, ids


def grouped_topk(  # noqa: PLR0913 - a model's routing has these
    gating: torch.Tensor,
    bias: torch.Tensor,
    topk: int,
    *,
    groups: int,
    topk_groups: int,
    renormalize: bool,
    scale: float,
    weights: torch.Tensor | None = None,
    ids: torch.Tensor | None = None,
) -> _Pairs:
    """Routing of DeepSeek-V3: gating [m, n] bf16/fp16/fp32, bias [n] fp32.

    Returns:
        weights [m, topk] fp32 and ids [m, topk] int32; the best biased score first.
    """
    weights, ids = _buffers(gating, topk, weights, ids)
    kernels(gating, "routing").grouped_topk(
        weights, ids, gating, bias, groups, topk_groups, renormalize, scale
    )
    return weights, ids


def _buffers(
    gating: torch.Tensor, topk: int, weights: torch.Tensor | None, ids: torch.Tensor | None
) -> _Pairs:
    shape, device = (gating.shape[0], topk), gating.device
    if weights is None:
        weights = torch.empty(shape, dtype=torch.float32, device=device)
    return weights, torch.empty(shape, dtype=torch.int32, device=device) if ids is None else ids
