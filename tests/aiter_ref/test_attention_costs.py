"""The cost of attention against an instrumented count."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from aiter_ref import attention as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations


def test_pa_decode():
    """A count by KV heads instead of heads, or of the longest context for all."""
    lengths = torch.tensor([48, 7, 0], dtype=torch.int32)
    keys, values = torch.randn(2, 12, 16, 2, 64).bfloat16()
    tables = torch.arange(12).view(3, 4).int()
    q = torch.randn(3, 8, 64).bfloat16()
    cost = ref.pa_decode_cost(8, 2, 64, lengths.tolist(), block_size=16, itemsize=2)
    counted = operations(lambda: ref.pa_decode(q, keys, values, tables, lengths, scale=0.125))
    assert counted == cost.flops
    used = 55 * 2 * 64 * 2 * 2  # tokens, KV heads, size, key and value, bytes
    assert cost.nbytes == used + 2 * q.nbytes + lengths.nbytes + 4 * 4  # and four blocks
