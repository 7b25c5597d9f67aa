"""Multi-head latent attention, as decoding runs it: on latents, which all heads share."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def mla_decode(
    q: torch.Tensor,
    cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    *,
    rank: int,
    scale: float,
) -> torch.Tensor:
    """One query a sequence over a paged cache of latents, in fp32.

        out[s, h] = sum over t of softmax_t(scale * q[s, h] . latent[t]) * latent[t, :rank]

    DeepSeek-V2 (2024), section 2.1.2: a token leaves ``rank`` numbers that keys and values of every
    head are made of, and a rotary key. The projections from it are taken into the query before and
    into the output after. Token ``t`` is in block ``block_tables[s, t // block_size]``, at position
    ``t % block_size``. A sequence without tokens (padding of a batch) gives zeros.

    q [sequences, heads, rank + rope], cache [blocks, block_size, rank + rope], block_tables
    [sequences, blocks of the longest] int32, context_lens [sequences] int32 -> [sequences, heads,
    rank] of q's dtype.
    """
    out = torch.zeros_like(q[..., :rank], memory_format=torch.contiguous_format)
    for sequence, length in enumerate(context_lens.tolist()):
        if length:
            blocks = block_tables[sequence, : -(-length // cache.shape[1])].long()
            latents = cache[blocks].flatten(0, 1)[:length].float()
            scores = q[sequence].float() @ latents.T * scale
            powers = torch.exp(scores - scores.amax(-1, keepdim=True))
            weights = powers / powers.sum(-1, keepdim=True)
            out[sequence] = weights @ latents[:, :rank]
    return out


def mla_decode_cost(
    heads: int,
    rank: int,
    rope: int,
    context_lens: list[int],
    *,
    block_size: int,
    itemsize: int,
) -> Cost:
    """Of ``mla_decode``: products of 2 * (rank + rope) and 2 * rank a head and token, the softmax.

    The latter takes a product with the scale, a maximum, a difference, an exponential, a sum and a
    quotient. Latents of every token are read once, for all heads; so are the queries, the lengths
    and the used part of the block tables (int32).
    """
    tokens, sequences = sum(context_lens), len(context_lens)
    blocks = sum(-(-length // block_size) for length in context_lens)
    flops = heads * tokens * (2 * (rank + rope) + 2 * rank + 6)
    moved = (tokens + sequences * heads) * (rank + rope) + sequences * heads * rank
    return Cost(flops, moved * itemsize + 4 * (sequences + blocks))
