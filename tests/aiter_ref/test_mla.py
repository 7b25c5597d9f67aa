"""Latent attention against the attention that it is short for, in fp64, and its cost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from aiter_ref import mla as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations

RTOL = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5}
RANK, ROPE = 24, 8


def token_by_token(q, cache, tables, lengths, rank, scale):
    """One head of one sequence at a time, its tokens found one after the other."""
    out = torch.zeros(*q.shape[:2], rank, dtype=torch.float64)
    size = cache.shape[1]
    for s, length in enumerate(lengths.tolist()):
        rows = [cache[tables[s, t // size], t % size].double() for t in range(length)]
        for h in range(q.shape[1] if rows else 0):
            scores = torch.stack([torch.dot(row, q[s, h].double()) for row in rows]) * scale
            weights = scores.softmax(0)
            out[s, h] = sum(w * row[:rank] for w, row in zip(weights, rows, strict=True))
    return out


@pytest.mark.parametrize("dtype", RTOL)
def test_against_fp64(dtype):
    """A token too many, a block of another sequence, scores without the rotary part."""
    lengths = torch.tensor([1, 16, 17, 0, 40], dtype=torch.int32)
    cache = torch.randn(20, 16, RANK + ROPE).to(dtype)
    tables = torch.randperm(20)[:15].view(5, 3).int()
    q = torch.randn(5, 3, RANK + ROPE).to(dtype)
    got = ref.mla_decode(q, cache, tables, lengths, rank=RANK, scale=0.3)
    assert got.dtype is dtype
    want = token_by_token(q, cache, tables, lengths, RANK, 0.3)
    torch.testing.assert_close(got.double(), want, rtol=RTOL[dtype], atol=1e-6)


def test_it_is_attention_of_the_keys_and_values_that_latents_stand_for():
    """The projections that are taken into query and output: eq. 9 to 11 of DeepSeek-V2."""
    heads, size, tokens = 3, 6, 10
    latents = torch.randn(tokens, RANK + ROPE, dtype=torch.float64)
    up_k, up_v = torch.randn(2, heads, size, RANK, dtype=torch.float64)
    q_plain = torch.randn(heads, size, dtype=torch.float64)
    q_turned = torch.randn(heads, ROPE, dtype=torch.float64)
    keys = torch.einsum("hdr,tr->htd", up_k, latents[:, :RANK])
    scores = torch.einsum("hd,htd->ht", q_plain, keys) + q_turned @ latents[:, RANK:].T
    values = torch.einsum("hdr,tr->htd", up_v, latents[:, :RANK])
    want = torch.einsum("ht,htd->hd", (0.1 * scores).softmax(-1), values)

    absorbed = torch.einsum("hd,hdr->hr", q_plain, up_k)
    q = torch.cat([absorbed, q_turned], -1).float().unsqueeze(0)
    tables, lengths = torch.tensor([[0]]).int(), torch.tensor([tokens]).int()
    cache = latents.float().unsqueeze(0)
    got = ref.mla_decode(q, cache, tables, lengths, rank=RANK, scale=0.1)
    out = torch.einsum("hdr,hr->hd", up_v, got[0].double())
    torch.testing.assert_close(out, want, rtol=1e-4, atol=1e-4)


def test_cost():
    """Values as wide as keys, a latent read once a head, the longest context for all."""
    lengths = torch.tensor([48, 7, 0], dtype=torch.int32)
    cache = torch.randn(12, 16, RANK + ROPE).bfloat16()
    tables = torch.arange(12).view(3, 4).int()
    q = torch.randn(3, 8, RANK + ROPE).bfloat16()
    cost = ref.mla_decode_cost(8, RANK, ROPE, lengths.tolist(), block_size=16, itemsize=2)
    counted = operations(lambda: ref.mla_decode(q, cache, tables, lengths, rank=RANK, scale=0.125))
    assert counted == cost.flops
    latents, results = 55 * (RANK + ROPE) * 2, 3 * 8 * RANK * 2
    assert cost.nbytes == latents + q.nbytes + results + lengths.nbytes + 4 * 4  # four blocks
