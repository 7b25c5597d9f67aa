"""Attention of many queries: sequences side by side, each over its own keys alone."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost

_SCORES = 1 << 26  # that are kept at a time


def mha(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool,
    window: int,
    scale: float,
) -> torch.Tensor:
    """Attention of each sequence over its own keys, in fp32 (Vaswani et al. 2017, eq. 1).

        out[i, h] = sum over j of softmax_j(scale * q[i, h] . k[j, g]) * v[j, g]

    with ``g = h // (heads // kv_heads)``. Sequence ``s`` has queries ``cu_seqlens_q[s]`` to
    ``cu_seqlens_q[s + 1]`` and its keys likewise. Its last query stands at its last key, so query
    ``i`` of ``m`` stands at key ``p = n - m + i`` of ``n``. It sees all keys; with ``causal`` those
    up to ``p``; with a ``window`` above 0 the last ``window`` of them (Beltagy et al. 2020, 3.1). A
    query that sees no key gives zeros.

    q [queries, heads, size], k and v [keys, kv_heads, size], cu_seqlens [sequences + 1] -> as q.
    """
    out = torch.zeros_like(q)
    starts = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for q_begin, q_end, k_begin, k_end in zip(
        starts[0][:-1], starts[0][1:], starts[1][:-1], starts[1][1:], strict=True
    ):
        seen = seen_keys(q_end - q_begin, k_end - k_begin, causal=causal, window=window)
        used = seen.any(-1)
        if not used.any():
            continue
        keys, values = k[k_begin:k_end].float(), v[k_begin:k_end].float()
        queries = q[q_begin:q_end][used].float()
        mask = None if seen.all() else seen[used]
        out[q_begin:q_end][used] = _attend(queries, keys, values, mask, scale).to(q.dtype)
    return out


def seen_keys(queries: int, keys: int, *, causal: bool, window: int) -> torch.Tensor:
    """Which query sees which key of a sequence [queries, keys] bool."""
    at = torch.arange(queries).unsqueeze(1) + keys - queries
    key = torch.arange(keys)
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if causal:
        seen &= key <= at
    if window:
        seen &= key > at - window
    return seen


def _attend(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    """A few KV heads at a time, which bounds the memory that the scores take."""
    many, heads, size = q.shape
    kv_heads = keys.shape[1]
    grouped = q.view(many, kv_heads, heads // max(kv_heads, 1), size).permute(1, 2, 0, 3)
    out = torch.empty_like(grouped)
    step = max(_SCORES * kv_heads // max(heads * many * len(keys), 1), 1)
    for first in range(0, kv_heads, step):
        some = slice(first, first + step)
        scores = grouped[some].flatten(1, 2) @ keys[:, some].permute(1, 2, 0) * scale
        if mask is not None:
            scores.view(len(scores), -1, *mask.shape).masked_fill_(~mask, float("-inf"))
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        weights = powers / powers.sum(-1, keepdim=True)
        out[some] = (weights @ values[:, some].transpose(0, 1)).view_as(out[some])
    return out.permute(2, 0, 1, 3).reshape(many, heads, size)


def mha_cost(
    heads: int,
    kv_heads: int,
    size: int,
    lengths: list[tuple[int, int]],
    *,
    causal: bool,
    window: int,
    itemsize: int,
) -> Cost:
    """Of ``mha``, ``lengths`` the queries and keys of each sequence: what a query sees is counted.

    Two products of 2 * size a head and pair of query and key (Dao et al. 2022), and the softmax: a
    product with the scale, a maximum, a difference, an exponential, a sum and a quotient. Queries,
    results and the keys and values that some query sees move once, so do the starts (int32).
    """
    pairs = keys = 0
    for many, length in lengths:
        positions = range(length - many, length)
        ends = [max(at + 1, 0) for at in positions] if causal else [length] * many
        first = [max(at + 1 - window, 0) if window else 0 for at in positions]
        seen = [max(end - begin, 0) for begin, end in zip(first, ends, strict=True)]
        pairs += sum(seen)
        keys += length - first[0] if many else 0
    queries = sum(many for many, _ in lengths)
    moved = 2 * size * itemsize * (queries * heads + keys * kv_heads)
    return Cost(heads * pairs * (4 * size + 6), moved + 2 * 4 * (len(lengths) + 1))
