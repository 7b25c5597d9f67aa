"""Rotary position embedding in place, alone and after a norm of each head.

csrc on the CPU, Triton on a GPU. ``cos_sin`` and the two ways of pairing are those of
``aiter_ref.rope``.
"""

from __future__ import annotations

import torch

from optest.ops.dispatch import kernels


def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    *,
    is_neox: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn q [tokens, heads, head_size] and k [tokens, kv_heads, head_size] in place.

    positions [tokens] int64, cos_sin [positions, rotary_dim] -> the same ``q`` and ``k``.
    """
    kernels(q, "rope").rope(q, k, positions, cos_sin, is_neox)
    return q, k


def fused_qk_norm_rope(  # noqa: PLR0913, PLR0917 - two of each operand
    q: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    eps: float,
    *,
    is_neox: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """RMSNorm of each head by q_weight or k_weight [head_size], then ``rope``, in place."""
    kernels(q, "rope").fused_qk_norm_rope(
        q, k, q_weight, k_weight, positions, cos_sin, eps, is_neox
    )
    return q, k
