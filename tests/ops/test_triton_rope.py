"""Triton's rotary position embedding in the interpreter, and its lowering."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import rope as ref
from optest.errors import UsageError
from optest.ops.triton import rope

# One step of the output: a sum in another order may round the other way.
RTOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}
SHAPES = [(1, 1, 1), (2, 5, 3), (0, 4, 2), (2, 0, 1), (1, 19, 2)]
HEADS = [(1, 0), (2, 2), (80, 20), (67, 66), (128, 128)]


def operands(shape, head, dtype):
    tokens, heads, kv_heads = shape
    qkv = torch.randn(tokens, heads + 2 * kv_heads, head[0]).to(dtype)
    q, k = qkv[:, : heads + kv_heads].split((heads, kv_heads), 1)
    return qkv, q, k, torch.randint(0, 9, (tokens,)), ref.cos_sin_cache(9, head[1], dtype)


def check(shape, head, dtype, is_neox):
    """Both operators, in place, and what lies beside them."""
    weights = torch.randn(2, head[0]).to(dtype)
    qkv, q, k, positions, cos_sin = operands(shape, head, dtype)
    values = qkv[:, shape[1] + shape[2] :]
    kept = values.clone()
    want = [ref.rope(x, positions, cos_sin, is_neox=is_neox) for x in (q, k)]
    rope.rope(q, k, positions, cos_sin, is_neox)
    torch.testing.assert_close([q, k], want, rtol=RTOL[dtype], atol=2e-6)
    want = [
        ref.norm_rope(x, w, positions, cos_sin, 1e-6, is_neox=is_neox)
        for x, w in zip((q, k), weights, strict=True)
    ]
    rope.fused_qk_norm_rope(q, k, *weights, positions, cos_sin, 1e-6, is_neox)
    torch.testing.assert_close([q, k], want, rtol=RTOL[dtype], atol=4e-6)
    assert torch.equal(values, kept)


@pytest.mark.parametrize("is_neox", [True, False], ids=["neox", "gptj"])
@pytest.mark.parametrize("head", HEADS, ids=str)
def test_heads(head, is_neox):
    check((2, 5, 3), head, torch.bfloat16, is_neox)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape, dtype):
    check(shape, (80, 20), dtype, is_neox=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.empty(3, 64)}, r"q: shape \(3, 64\), expected \[tokens"),
        ({"k": torch.empty(3, 2, 8)}, r"k: .*\(3, 2, 8\), expected"),
        ({"k": torch.empty(3, 2, 16).half()}, "k: torch.float16"),
        ({"q": torch.empty(3, 16, 4).transpose(1, 2)}, "q: .*columns side by side"),
        ({"positions": torch.zeros(3)}, "positions: torch.float32"),
        ({"positions": torch.zeros(4, dtype=torch.int64)}, r"positions: .*\(4,\)"),
        ({"cos_sin": torch.empty(9, 18)}, r"cos_sin: shape \(9, 18\).*at most 16"),
        ({"cos_sin": torch.empty(9, 15)}, "even"),
    ],
)
def test_refused(changes, words):
    given = {
        "q": torch.empty(3, 4, 16),
        "k": torch.empty(3, 2, 16),
        "positions": torch.zeros(3, dtype=torch.int64),
        "cos_sin": torch.empty(9, 16),
    }
    with pytest.raises(UsageError, match=words):
        rope.rope(**{**given, **changes}, is_neox=True)


def kernels(_target):
    signature = {"x": "*bf16:16", "positions": "*i64", "cos_sin": "*bf16:16"}
    signature |= dict.fromkeys(("heads", "half", "x_token", "x_head"), "i32")
    normed = {**signature, "weight": "*bf16:16", "size": "i32", "eps": "fp32"}
    for neox in (True, False):
        constants = {"NEOX": neox, "HEADS": 16, "HALF": 64}
        yield "rope:rope_kernel", signature, constants
        yield "rope:norm_rope_kernel", normed, {**constants, "SIZE": 128}


def test_lowers():
    assert_lowers(kernels)
