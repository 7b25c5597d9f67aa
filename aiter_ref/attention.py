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
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> torch.Tensor:
    """One query a sequence over the tokens of a paged cache, in fp32 (Kwon et al. 2023, eq. 4).

        out[s, h] = sum over t of softmax_t(scale * q[s, h] . key[t, g]) * value[t, g]

    with ``g = h // (heads // kv_heads)``, over the ``context_lens[s]`` tokens of sequence ``s``,
    its own newest one included. Token ``t`` is in block ``block_tables[s, t // block_size]``, at
    position ``t % block_size``. A sequence without tokens (padding of a batch) gives zeros. A key
    is what its cache holds times ``k_scale``, a value what its cache holds times ``v_scale``: both
    are one number for all of a cache and are taken out of the sums.

    q [sequences, heads, size] bf16/fp16/fp32, caches [blocks, block_size, kv_heads, size] of any
    floating dtype, block_tables [sequences, blocks of the longest] int32, context_lens [sequences]
    int32 -> as q.
    """
    out = torch.zeros_like(q)
    for sequence, length in enumerate(context_lens.tolist()):
        if length:
            blocks = block_tables[sequence, : -(-length // key_cache.shape[1])].long()
            keys = key_cache[blocks].flatten(0, 1)[:length]
            values = value_cache[blocks].flatten(0, 1)[:length]
            of_codes = _attend(q[sequence].float(), keys.float(), values.float(), scale * k_scale)
            out[sequence] = of_codes * v_scale
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
    cache_itemsize: int,
) -> Cost:
    """Of ``pa_decode``: two products of 2 * size a head and token (Dao et al. 2022), the softmax.

    The latter takes a product with the scale, a maximum, a difference, an exponential, a sum and a
    quotient; the result is multiplied by ``v_scale``. Keys and values of every token are read once,
    for all heads, ``cache_itemsize`` bytes a number; so are the queries, of ``itemsize`` as the
    result is, the lengths and the used part of the block tables (int32).
    """
    tokens, sequences = sum(context_lens), len(context_lens)
    blocks = sum(-(-length // block_size) for length in context_lens)
    held = sum(length > 0 for length in context_lens)
    cached = 2 * tokens * kv_heads * size * cache_itemsize
    rows = 2 * sequences * heads * size * itemsize
    flops = heads * (tokens * (4 * size + 6) + held * size)
    return Cost(flops, cached + rows + 4 * (sequences + blocks))
