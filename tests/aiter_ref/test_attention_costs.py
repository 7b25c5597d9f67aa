"""The cost of attention against an instrumented count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from aiter_ref import attention as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations


@pytest.mark.parametrize("cached", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_pa_decode(cached):
    """A count by KV heads instead of heads, or of the longest context for all; fp8 as bf16."""
    lengths = torch.tensor([48, 7, 0], dtype=torch.int32)
    keys, values = torch.randn(2, 12, 16, 2, 64).to(cached)
    tables = torch.arange(12).view(3, 4).int()
    q = torch.randn(3, 8, 64).bfloat16()
    cost = ref.pa_decode_cost(
        8, 2, 64, lengths.tolist(), block_size=16, itemsize=2, cache_itemsize=cached.itemsize
    )
    scales = {"scale": 0.125, "k_scale": 0.5, "v_scale": 0.25}
    counted = operations(lambda: ref.pa_decode(q, keys, values, tables, lengths, **scales))
    assert counted == cost.flops
    used = 55 * 2 * 64 * 2 * cached.itemsize  # tokens, KV heads, size, key and value, bytes
    assert cost.nbytes == used + 2 * q.nbytes + lengths.nbytes + 4 * 4  # and four blocks
