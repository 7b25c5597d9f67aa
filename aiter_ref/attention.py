"""Attention: softmax(scale * q k^T) v, where a group of queries shares its keys and values."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def pa_decode(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    *,
    scale: float,
) -> torch.Tensor:
    """One query a sequence over the tokens of a paged cache, in fp32 (Kwon et al. 2023, eq. 4).

        out[s, h] = sum over t of softmax_t(scale * q[s, h] . key[t, g]) * value[t, g]

    with ``g = h // (heads // kv_heads)``, over the ``context_lens[s]`` tokens of sequence ``s``,
    its own newest one included. Token ``t`` is in block ``block_tables[s, t // block_size]``, at
    position ``t % block_size``. A sequence without tokens (padding of a batch) gives zeros.

    q [sequences, heads, size], caches [blocks, block_size, kv_heads, size], block_tables
    [sequences, blocks of the longest] int32, context_lens [sequences] int32 -> as q.
    """
    out = torch.zeros_like(q)
    for sequence, length in enumerate(context_lens.tolist()):
        if length:
            blocks = block_tables[sequence, : -(-length // key_cache.shape[1])].long()
            keys = key_cache[blocks].flatten(0, 1)[:length]
            values = value_cache[blocks].flatten(0, 1)[:length]
            out[sequence] = _attend(q[sequence].float(), keys.float(), values.float(), scale)
    return out


def _attend(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
) -> torch.Tensor:
    """Of q [heads, size], keys and values [tokens, kv_heads, size] -> [heads, size]."""
    kv_heads = keys.shape[1]
    grouped = q.view(kv_heads, q.shape[0] // max(kv_heads, 1), q.shape[1])
    scores = grouped @ keys.permute(1, 2, 0) * scale
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    weights = powers / powers.sum(-1, keepdim=True)
    return (weights @ values.transpose(0, 1)).flatten(0, 1)


def pa_decode_cost(
    heads: int,
    kv_heads: int,
    size: int,
    context_lens: list[int],
    *,
    block_size: int,
    itemsize: int,
) -> Cost:
    """Of ``pa_decode``: two products of 2 * size a head and token (Dao et al. 2022), the softmax.

    The latter takes a product with the scale, a maximum, a difference, an exponential, a sum and a
    quotient. Keys and values of every token are read once, for all heads; so are the queries, the
    lengths and the used part of the block tables (int32).
    """
    tokens, sequences = sum(context_lens), len(context_lens)
    blocks = sum(-(-length // block_size) for length in context_lens)
    cached = 2 * tokens * kv_heads * size * itemsize
    rows = 2 * sequences * heads * size * itemsize
    return Cost(heads * tokens * (4 * size + 6), cached + rows + 4 * (sequences + blocks))
