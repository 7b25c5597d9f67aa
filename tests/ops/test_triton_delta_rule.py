"""Triton's gated delta rule in the interpreter, and its lowering to cards not here."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from lowering import assert_lowers

from aiter_ref import delta_rule as ref
from optest.errors import UsageError
from optest.ops.triton import delta_rule

RTOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}
# Sequences, tokens, heads of k and v, sizes.
SHAPES = [(1, 1, 1, 1, 1, 1), (3, 4, 2, 4, 33, 65), (0, 1, 1, 1, 4, 4), (2, 2, 1, 1, 0, 4)]


@pytest.mark.parametrize("dtype", RTOL, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gated_delta_rule(shape, dtype):
    """Masks of ragged tiles, another head's keys, another's slot; padding."""
    sequences, tokens, k_heads, v_heads, key_size, value_size = shape
    q, k = F.normalize(torch.randn(2, sequences, tokens, k_heads, key_size), dim=-1).to(dtype)
    v = torch.randn(sequences, v_heads, tokens, value_size).to(dtype).transpose(1, 2)
    g, beta = -torch.rand(sequences, tokens, v_heads), torch.rand(sequences, tokens, v_heads)
    state = torch.randn(sequences + 2, v_heads, key_size, value_size)
    slots = torch.randperm(sequences + 2, dtype=torch.int32)[:sequences]
    slots[1:2] = -1
    want, after = ref.gated_delta_rule(q, k, v, g, beta, state, slots, scale=0.25)
    out = torch.full_like(want, torch.nan)
    delta_rule.gated_delta_rule(out, q, k, v, g, beta, state, slots, 0.25)
    torch.testing.assert_close(out, want, rtol=RTOL[dtype], atol=1e-5)
    torch.testing.assert_close(state, after, rtol=1e-5, atol=1e-5)


Q, V, G = torch.zeros(2, 3, 2, 8), torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 4)
STATE, SLOTS = torch.zeros(3, 4, 8, 5), torch.arange(2, dtype=torch.int32)
REFUSED = {
    "v: torch.float64": {"v": V.double()},
    "k: torch.float16": {"k": Q.half()},
    r"out: .*\(2, 3, 4, 4\)": {"out": V[..., :4]},
    "v: 3 heads, expected a multiple": {"v": V[:, :, :3]},
    "q: strides": {"q": torch.zeros(2, 3, 8, 2).transpose(2, 3)},
    r"g: .*\(2, 3, 3\)": {"g": G[..., :3]},
    r"state: .*\(3, 4, 5, 8\)": {"state": STATE.mT},
    "slots: torch.int64": {"slots": SLOTS.long()},
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_refused(words):
    given = {"out": V.clone(), "q": Q, "k": Q, "v": V, "g": G, "beta": G}
    given |= {"state": STATE, "slots": SLOTS}
    with pytest.raises(UsageError, match=words):
        delta_rule.gated_delta_rule(**{**given, **REFUSED[words]}, scale=1.0)


def kernels(_target):
    pointers = dict.fromkeys(("out", "q", "k", "v"), "*bf16:16")
    pointers |= dict.fromkeys(("g", "beta", "state"), "*fp32:16")
    sizes = {"slots": "*i32:16", "scale": "fp32"}
    sizes |= dict.fromkeys(("tokens", "group"), "i32")
    names = ("key_size", "value_size")
    names += tuple(f"{x}_{of}" for x in ("out", *"qkv") for of in ("sequence", "token", "head"))
    strides = dict.fromkeys(names, "i32:16")
    yield "delta_rule:delta_kernel", {**pointers, **sizes, **strides}, {"ROWS": 128, "COLUMNS": 32}


def test_lowers():
    assert_lowers(kernels)
