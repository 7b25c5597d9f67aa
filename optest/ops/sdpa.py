"""Attention as torch offers it: its own kernel, sequence after sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from optest.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS = 256  # of queries that share a mask: the more, the more of it is hidden


def mha(  # noqa: PLR0913 - the operands, and what each query sees
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool,
    window: int = 0,
    scale: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """As ``optest.ops.attention.mha``, with ``scaled_dot_product_attention``.

    A sequence whose queries are as many as its keys, or see them all, is one call. Others are cut
    into pieces of queries, so that no piece reads keys that none of it sees.

    Raises:
        UsageError: a window without ``causal``.
    """
    if window and not causal:
        raise UsageError(f"window={window}: expected causal=True beside it, or a window of 0.")
    y = torch.empty_like(q) if out is None else out
    starts = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for s in range(len(starts[0]) - 1):
        queries, keys = (slice(at[s], at[s + 1]) for at in starts)
        _one(y[queries], q[queries], k[keys], v[keys], scale, window=window, causal=causal)
    return y


def _one(  # noqa: PLR0913 - as above
    out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    *,
    window: int,
    causal: bool,
) -> None:
    """Of one sequence."""
    many, length = len(q), len(k)
    if not many or not length:
        out.zero_()
    elif not causal or (many == 1 and not 0 < window < length):
        _call(out, q, k, v, scale)
    elif many == length and not 0 < window < length:
        _call(out, q, k, v, scale, is_causal=True)
    else:
        for rows, keys, mask in _pieces(many, length, window, q.device):
            _call(out[rows], q[rows], k[keys], v[keys], scale, attn_mask=mask)
        out[: max(many - length, 0)] = 0  # they stand before the first key


def _pieces(
    many: int, length: int, window: int, device: torch.device
) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """Queries in pieces, the keys that each sees, and which query sees which of them."""
    before = length - many
    for first in range(max(-before, 0), many, _ROWS):
        end = min(first + _ROWS, many)
        begin = max(first + before + 1 - window, 0) if window else 0
        at = torch.arange(first + before, end + before, device=device).unsqueeze(1)
        key = torch.arange(begin, end + before, device=device)
        mask = key <= at
        if window:
            mask &= key > at - window
        yield slice(first, end), slice(begin, end + before), mask


def _call(  # noqa: PLR0913 - as torch's
    out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    *,
    attn_mask: torch.Tensor | None = None,
    is_causal: bool = False,
) -> None:
    made = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(0, 1).unsqueeze(0),
        k.transpose(0, 1).unsqueeze(0),
        v.transpose(0, 1).unsqueeze(0),
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=True,
    )
    out.copy_(made[0].transpose(0, 1))
