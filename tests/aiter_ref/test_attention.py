"""Attention against an independent formulation in fp64 and against hand values."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import attention as ref

# Half a step of the output, and for fp32 what fp32 arithmetic inside loses.
RTOL = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5}


def token_by_token(q, key_cache, value_cache, block_tables, context_lens, scale):
    """One head of one sequence at a time, its tokens found one after the other."""
    block_size, group = key_cache.shape[1], q.shape[1] // key_cache.shape[2]
    out = torch.zeros(q.shape, dtype=torch.float64)
    for s, h in torch.cartesian_prod(torch.arange(q.shape[0]), torch.arange(q.shape[1])).tolist():
        where = [
            (block_tables[s, t // block_size], t % block_size, h // group)
            for t in range(context_lens[s])
        ]
        if where:
            keys = torch.stack([key_cache[at].double() for at in where])
            values = torch.stack([value_cache[at].double() for at in where])
            weights = torch.softmax(torch.mv(keys, q[s, h].double()) * scale, 0)
            out[s, h] = torch.mv(values.T, weights)
    return out


@pytest.mark.parametrize("dtype", RTOL)
def test_against_fp64(dtype):
    """Another head's keys, a token too many or too few, a block of another sequence."""
    lengths = torch.tensor([1, 16, 17, 0, 40], dtype=torch.int32)
    keys, values = torch.randn(2, 20, 16, 2, 24).to(dtype)
    tables = torch.randperm(20)[:15].view(5, 3).int()
    q = torch.randn(5, 6, 24).to(dtype)
    got = ref.pa_decode(q, keys, values, tables, lengths, scale=0.3)
    assert got.dtype is dtype
    want = token_by_token(q, keys, values, tables, lengths, 0.3)
    torch.testing.assert_close(got.double(), want, rtol=RTOL[dtype], atol=1e-6)


@pytest.mark.parametrize("cached", [torch.float8_e4m3fn, torch.float8_e4m3fnuz], ids=str)
def test_scaled_codes_against_fp64(cached):
    """A scale left out, squared, or the other cache's; codes read as the other flavour."""
    lengths = torch.tensor([1, 17, 0, 40], dtype=torch.int32)
    keys, values = torch.randn(2, 12, 16, 2, 24).to(cached)
    tables = torch.randperm(12).view(4, 3).int()
    q = torch.randn(4, 6, 24).bfloat16()
    got = ref.pa_decode(q, keys, values, tables, lengths, scale=0.3, k_scale=0.7, v_scale=1.6)
    assert got.dtype is torch.bfloat16
    wide = keys.double() * 0.7, values.double() * 1.6
    want = token_by_token(q, *wide, tables, lengths, 0.3)
    torch.testing.assert_close(got.double(), want, rtol=RTOL[torch.bfloat16], atol=1e-6)


def test_by_hand():
    """Weights of 1/4 and 3/4, since the scores are apart by log 3."""
    keys = torch.tensor([0.0, 2 * torch.log(torch.tensor(3.0))]).view(1, 2, 1, 1)
    values = torch.tensor([4.0, 8.0]).view(1, 2, 1, 1)
    one = torch.ones(1, 1, 1)
    tables, lengths = torch.zeros(1, 1).int(), torch.tensor([2]).int()
    got = ref.pa_decode(one, keys, values, tables, lengths, scale=0.5)
    assert got.item() == pytest.approx(7.0)


def test_large_scores_do_not_overflow():
    keys, values = torch.full((1, 4, 1, 8), 100.0), torch.randn(1, 4, 1, 8)
    tables, lengths = torch.zeros(1, 1).int(), torch.tensor([4]).int()
    got = ref.pa_decode(torch.full((1, 1, 8), 100.0), keys, values, tables, lengths, scale=1.0)
    torch.testing.assert_close(got[0, 0], values.mean((0, 1, 2)))
