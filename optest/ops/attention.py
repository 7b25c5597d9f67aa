"""Attention: csrc (of many queries torch's own) on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch

from optest.ops import sdpa
from optest.ops.dispatch import kernels, on_cpu


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
    """Attention of sequences that lie side by side, each over its own keys.

    The last query of a sequence stands at its last key. With ``causal`` a query sees the keys up to
    its own, with a ``window`` above 0 the last ``window`` of these; one that sees none gives zeros.

    q [queries, heads, size], k and v [keys, kv_heads, size] of one dtype (bf16, fp16 or fp32, dense
    in the last dimension), cu_seqlens [sequences + 1] int32 -> as q.
    """
    if on_cpu(q):
        return sdpa.mha(
            q, k, v, cu_seqlens_q, cu_seqlens_k, causal=causal, window=window, scale=scale, out=out
        )
    from optest.ops.triton import mha as triton  # loads where a GPU needs it

    y = torch.empty_like(q) if out is None else out
    triton.mha(y, q, k, v, cu_seqlens_q, cu_seqlens_k, scale, window, causal=causal)
    return y


def pa_decode(  # noqa: PLR0913 - the cache, and what finds a sequence in it
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    *,
    scale: float,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """One query a sequence over the ``context_lens`` tokens that the block tables name.

    A key is what its cache holds times ``k_scale``, a value what its cache holds times ``v_scale``.
    A length of 0 gives zeros.

    q [sequences, heads, size] bf16, fp16 or fp32, caches [blocks, block_size, kv_heads, size], both
    of q's dtype or both fp8 (on a CPU either of float8_e4m3fn and float8_e4m3fnuz, on a card its
    own; a permuted view where the cache has its heads before its positions), block_tables
    [sequences, blocks] int32, context_lens [sequences] int32 -> as q.

    Raises:
        ValueError: a shape, stride or dtype that the kernels do not take, naming the tensor, what
            it is and what was expected; on a CPU also a length or a block out of range.
    """
    y = torch.empty_like(q) if out is None else out
    kernels(q, "attention").pa_decode(
        y, q, key_cache, value_cache, block_tables, context_lens, scale, k_scale, v_scale
    )
    return y


def mla_decode(  # noqa: PLR0913 - the cache, and what finds a sequence in it
    q: torch.Tensor,
    cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    *,
    rank: int,
    scale: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Latent attention: one query a sequence; a token's latent is key and value of every head.

    q [sequences, heads, rank + rope], cache [blocks, block_size, rank + rope] of the same dtype
    (bf16, fp16 or fp32), block_tables [sequences, blocks] int32, context_lens [sequences] int32 ->
    [sequences, heads, rank], the first ``rank`` numbers of a latent being its value. A length of 0
    gives zeros.
    """
    y = q.new_empty(*q.shape[:2], rank) if out is None else out
    family = "attention" if on_cpu(q) else "mla"
    kernels(q, family).mla_decode(y, q, cache, block_tables, context_lens, scale)
    return y
