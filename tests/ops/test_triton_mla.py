"""Triton's latent attention in the interpreter, and its lowering to cards that are not here."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import mla as ref
from optest.errors import UsageError
from optest.ops.triton import mla

# One step of the output: a sum in another order may round the other way.
RTOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}
ATOL = {torch.bfloat16: 2**-9, torch.float16: 2**-12, torch.float32: 1e-5}
LENGTHS = (1, 0, 16, 17, 64, 65, 600)


def operands(lengths=LENGTHS, heads=6, size=56, dtype=torch.float32, block_size=16):
    """q, cache, tables, lengths; blocks behind a context are not there."""
    most = max(1, -(-max(lengths, default=0) // block_size))
    blocks = max(1, most * len(lengths))
    cache = torch.randn(blocks, block_size, size).to(dtype)
    tables = torch.randperm(blocks)[: most * len(lengths)].view(len(lengths), most).int()
    for sequence, length in enumerate(lengths):
        tables[sequence, -(-length // block_size) :] = -1
    q = torch.randn(len(lengths), heads, size).to(dtype)
    return q, cache, tables, torch.tensor(lengths, dtype=torch.int32)


def assert_right(inputs, rank=40):
    q = inputs[0]
    out = torch.full((*q.shape[:2], rank), 77.0, dtype=q.dtype)
    mla.mla_decode(out, *inputs, 0.2)
    want = ref.mla_decode(*inputs, rank=rank, scale=0.2)
    torch.testing.assert_close(out, want, rtol=RTOL[q.dtype], atol=ATOL[q.dtype])


@pytest.mark.parametrize("dtype", RTOL)
def test_mla_decode(dtype):
    """Masked tokens in the softmax, parts without a token, a rank that is no power of two."""
    assert_right(operands(dtype=dtype))


@pytest.mark.parametrize("heads", [1, 16, 17, 0])
def test_heads(heads):
    """Blocks of heads that are full, begun and not there."""
    assert_right(operands((5, 33), heads))


@pytest.mark.parametrize(("size", "rank"), [(16, 16), (17, 1), (8, 0)])
def test_sizes(size, rank):
    """No rotary part, almost nothing else, no value."""
    assert_right(operands((5, 33), size=size), rank)


@pytest.mark.parametrize("block_size", [1, 3, 64])
def test_blocks(block_size):
    assert_right(operands((1, 64, 65), block_size=block_size))


def test_no_sequence():
    assert_right(operands(()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.empty(4, 8)}, r"q: shape \(4, 8\), expected \[sequences"),
        ({"out": torch.empty(2, 4, 9)}, r"out: shape \(2, 4, 9\), expected .* at most 8"),
        ({"cache": torch.empty(4, 16, 7)}, r"cache: shape .*block_size, 8\]"),
        ({"cache": torch.empty(4, 16, 8).half()}, "cache: torch.float16"),
        ({"context_lens": torch.ones(3).int()}, r"context_lens: .*1 axes, 2 rows"),
        ({"block_tables": torch.ones(2, 2)}, "block_tables: torch.float32"),
    ],
)
def test_refused(changes, words):
    names = ("q", "cache", "block_tables", "context_lens")
    inputs = dict(zip(names, operands((20, 5), 4, 8), strict=True))
    arguments = {"out": torch.empty(2, 4, 6), **inputs, **changes}
    with pytest.raises(UsageError, match=words):
        mla.mla_decode(**arguments, scale=1.0)


def kernels(_target):
    partial = dict.fromkeys(("sums", "largest", "totals"), "*fp32:16")
    tables = {"tables": "*i32:16", "lengths": "*i32:16"}
    strides = "q_row q_head cache_block cache_slot table_row"
    numbers = dict.fromkeys(f"heads rank rope block_size span {strides}".split(), "i32")
    signature = {**dict.fromkeys(("q", "cache"), "*bf16:16"), **tables, **partial}
    constants = {"HEADS": mla._HEADS, "RANK": 512, "ROPE": 64, "TILE": mla._TILE}
    yield "mla:mla_decode_kernel", {**signature, "scale": "fp32", **numbers}, constants


def test_lowers():
    assert_lowers(kernels)
