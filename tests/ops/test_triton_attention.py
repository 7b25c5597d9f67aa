"""Triton's attention in the interpreter, and its lowering to cards that are not here."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import attention as ref
from optest.errors import UsageError
from optest.ops.triton import attention

# One step of the output: a sum in another order may round the other way.
RTOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}
CODES = [torch.float8_e4m3fn, torch.float8_e4m3fnuz]
LENGTHS = (1, 0, 16, 17, 64, 65, 600)


def operands(lengths=LENGTHS, heads=(6, 2, 24), dtype=torch.float32, block_size=16, cached=None):
    """q, caches, tables, lengths; blocks behind a context are not there."""
    count, kv_heads, size = heads
    most = max(1, -(-max(lengths, default=0) // block_size))
    blocks = max(1, most * len(lengths))
    keys, values = torch.randn(2, blocks, block_size, kv_heads, size).to(cached or dtype)
    tables = torch.randperm(blocks)[: most * len(lengths)].view(len(lengths), most).int()
    for sequence, length in enumerate(lengths):
        tables[sequence, -(-length // block_size) :] = -1
    q = torch.randn(len(lengths), count, size).to(dtype)
    return q, keys, values, tables, torch.tensor(lengths, dtype=torch.int32)


def assert_right(inputs, k_scale=1.0, v_scale=1.0):
    q = inputs[0]
    out = torch.full_like(q, 77.0)
    attention.pa_decode(out, *inputs, 0.2, k_scale, v_scale)
    want = ref.pa_decode(*inputs, scale=0.2, k_scale=k_scale, v_scale=v_scale)
    torch.testing.assert_close(out, want, rtol=RTOL[q.dtype], atol=1e-5)


@pytest.mark.parametrize("dtype", RTOL)
def test_pa_decode(dtype):
    """Masked tokens in the softmax, parts without a token, a size that is no power of two."""
    assert_right(operands(dtype=dtype))


@pytest.mark.parametrize("cached", CODES, ids=str)
@pytest.mark.parametrize("dtype", RTOL, ids=str)
def test_codes(dtype, cached):
    """The other flavour, twice or half as large; a scale left out or the other cache's."""
    assert_right(operands(dtype=dtype, cached=cached), 0.7, 1.6)


@pytest.mark.parametrize("heads", [(1, 1, 1), (17, 1, 16), (0, 2, 8), (4, 2, 0)], ids=str)
def test_heads(heads):
    """Groups wider than a tile of the dot, and narrower."""
    assert_right(operands((5, 33), heads))


@pytest.mark.parametrize("block_size", [1, 3, 64])
def test_blocks(block_size):
    assert_right(operands((1, 64, 65), block_size=block_size))


def test_heads_before_positions():
    """A cache whose heads come first is passed as a view."""
    q, keys, values, *rest = operands()
    swapped = [cache.transpose(1, 2).contiguous().transpose(1, 2) for cache in (keys, values)]
    assert_right((q, *swapped, *rest))


def test_no_sequence():
    assert_right(operands(()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.empty(4, 8)}, r"q: shape \(4, 8\), expected \[sequences"),
        ({"out": torch.empty(2, 4, 7)}, r"out: shape \(2, 4, 7\), expected \(2, 4, 8\)"),
        ({"key_cache": torch.empty(4, 16, 2, 7)}, r"key_cache: shape .*kv_heads, 8\]"),
        ({"value_cache": torch.empty(4, 16, 1, 8)}, "value_cache: shape"),
        (
            {"key_cache": torch.empty(4, 16, 2, 8).half()},
            "key_cache: torch.float16, expected torch.float32, as q, or",
        ),
        ({"value_cache": torch.empty(4, 16, 2, 8).half()}, "value_cache: torch.float16"),
        (
            {"key_cache": torch.empty(4, 16, 2, 8).to(CODES[0])},
            "value_cache: torch.float32, expected torch.float8_e4m3fn, as key_cache",
        ),
        ({"key_cache": torch.empty(4, 16, 2, 16)[..., ::2]}, r"key_cache: strides .*, 2\)"),
        ({"context_lens": torch.ones(3).int()}, r"context_lens: .*1 axes, 2 rows"),
        ({"block_tables": torch.ones(2, 2)}, "block_tables: torch.float32"),
    ],
)
def test_refused(changes, words):
    names = ("q", "key_cache", "value_cache", "block_tables", "context_lens")
    inputs = dict(zip(names, operands((20, 5), (4, 2, 8)), strict=True))
    arguments = {"out": torch.empty(2, 4, 8), **inputs, **changes}
    with pytest.raises(UsageError, match=words):
        attention.pa_decode(**arguments, scale=1.0)


def test_heads_that_no_group_shares_are_refused():
    q, *rest = operands((20, 5), (4, 2, 8))
    with pytest.raises(UsageError, match="3 heads, expected a multiple of the 2"):
        attention.pa_decode(torch.empty(2, 3, 8), q[:, :3], *rest, 1.0)


def kernels(target):
    fp8 = "*fp8e4b8:16" if target == "gfx942" else "*fp8e4nv:16"
    partial = dict.fromkeys(("sums", "largest", "totals"), "*fp32:16")
    strides = "q_row q_head key_block key_slot key_head value_block value_slot value_head table_row"
    numbers = dict.fromkeys(f"group size block_size span {strides}".split(), "i32")
    scales = {"scale": "fp32", "value_scale": "fp32"}
    for dtype, cached, tile in (
        ("*bf16:16", "*bf16:16", 32),
        ("*fp32:16", "*fp32:16", 16),
        ("*bf16:16", fp8, 32),
        ("*fp16:16", fp8, 32),
        ("*fp32:16", fp8, 16),
    ):
        tensors = {"q": dtype, "key_cache": cached, "value_cache": cached}
        tables = {"tables": "*i32:16", "lengths": "*i32:16"}
        signature = {**tensors, **tables, **partial, **scales, **numbers}
        constants = {"GROUP": 16, "SIZE": 128, "TILE": tile}
        yield "attention:pa_decode_kernel", signature, constants
    merged = dict.fromkeys(("parts", "size", "out_row", "out_head"), "i32")
    yield "attention:merge_kernel", {**partial, "out": "*bf16:16", **merged}, {"SIZE": 128}


def test_lowers():
    assert_lowers(kernels)
