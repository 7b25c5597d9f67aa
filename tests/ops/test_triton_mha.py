"""Triton's attention of many queries in the interpreter, and its lowering; torch's beside it."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import mha as ref
from optest.errors import UsageError
from optest.ops import sdpa
from optest.ops.triton import mha

# One step of the output, since sums in another order may round the other way.
RTOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}
ATOL = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5}
MASKS = [(True, 0), (False, 0), (True, 1), (True, 40)]
# Tiles that end on the border and beside it, queries alone, none, more than keys; no key.
QUERIES, KEYS = [64, 65, 1, 0, 40, 3], [64, 129, 33, 7, 8, 0]


def starts(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def operands(heads=(4, 2, 24), dtype=torch.float32, queries=QUERIES, keys=KEYS):
    count, kv_heads, size = heads
    both = torch.randn(sum(keys), 2 * kv_heads, size).to(dtype)
    q = torch.randn(sum(queries), count, size).to(dtype)
    return q, both[:, :kv_heads], both[:, kv_heads:], starts(queries), starts(keys)


def triton(inputs, causal, window):
    out = torch.full_like(inputs[0], 77.0)
    mha.mha(out, *inputs, 0.2, window, causal=causal)
    return out


def torchs(inputs, causal, window):
    return sdpa.mha(*inputs, causal=causal, window=window, scale=0.2)


def assert_right(run, inputs, causal=True, window=0):
    dtype = inputs[0].dtype
    want = ref.mha(*inputs, causal=causal, window=window, scale=0.2)
    torch.testing.assert_close(
        run(inputs, causal, window), want, rtol=RTOL[dtype], atol=ATOL[dtype]
    )


@pytest.mark.parametrize("run", [triton, torchs])
@pytest.mark.parametrize(("causal", "window"), MASKS)
def test_masks(run, causal, window):
    """A diagonal or a window one off, tiles skipped that are seen, rows that see nothing."""
    assert_right(run, operands(), causal, window)


@pytest.mark.parametrize("run", [triton, torchs])
@pytest.mark.parametrize("dtype", RTOL)
def test_dtypes(run, dtype):
    assert_right(run, operands(dtype=dtype), True, 40)


@pytest.mark.parametrize("heads", [(1, 1, 1), (5, 1, 200), (0, 2, 8), (4, 2, 0)], ids=str)
def test_heads(heads):
    """Sizes that are no power of two, and those for which tiles are halved."""
    assert_right(triton, operands(heads, queries=[17, 40], keys=[17, 41]))


@pytest.mark.parametrize("run", [triton, torchs])
def test_no_sequence(run):
    assert_right(run, operands(queries=[], keys=[]))


def test_many_pieces_of_queries():
    """torch's way cuts long chunks; a piece must see all keys before it, and none else's."""
    assert_right(torchs, operands((1, 1, 8), queries=[600], keys=[700]), True, 0)
    assert_right(torchs, operands((1, 1, 8), queries=[600], keys=[600]), True, 50)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.empty(4, 8)}, r"q: shape \(4, 8\), expected \[queries"),
        ({"out": torch.empty(7, 4, 7)}, r"out: shape \(7, 4, 7\), expected \(7, 4, 8\)"),
        ({"k": torch.empty(7, 2, 7)}, r"k: shape .*kv_heads, 8\]"),
        ({"v": torch.empty(7, 1, 8)}, "v: shape"),
        ({"v": torch.empty(7, 2, 8).half()}, "v: torch.float16"),
        ({"k": torch.empty(7, 3, 8), "v": torch.empty(7, 3, 8)}, "4 heads, expected a multiple"),
        ({"cu_seqlens_q": torch.ones(2)}, "cu_seqlens_q: torch.float32"),
        ({"cu_seqlens_k": torch.ones(3).int()}, "cu_seqlens_k: 3 starts, expected 2"),
        ({"window": -1}, "window: -1"),
        ({"window": 3, "causal": False}, "window: 3 without causal"),
    ],
)
def test_refused(changes, words):
    names = ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k")
    inputs = dict(zip(names, operands((4, 2, 8), queries=[7], keys=[7]), strict=True))
    given = {"out": torch.empty(7, 4, 8), "window": 0, "causal": True, **inputs, **changes}
    with pytest.raises(UsageError, match=words):
        mha.mha(**given, scale=1.0)


def test_a_window_needs_causal_in_torchs_way_too():
    with pytest.raises(UsageError, match="window=3"):
        torchs(operands(), False, 3)


def kernels(_target):
    tensors = ("q", "k", "v", "out")
    starts_of = dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), "*i32:16")
    strides = "q_row q_head k_row k_head v_row v_head out_row out_head"
    numbers = dict.fromkeys(f"sequences group size window {strides}".split(), "i32")
    for dtype, width in (("*bf16:16", 2), ("*fp32:16", 4)):
        signature = {**dict.fromkeys(tensors, dtype), **starts_of, "scale": "fp32", **numbers}
        rows, tile = mha._tiles(128 * width)
        constants = {"CAUSAL": True, "ROWS": rows, "TILE": tile, "SIZE": 128, "SEQUENCES": 64}
        yield "mha:mha_kernel", signature, constants


def test_lowers():
    assert_lowers(kernels)
