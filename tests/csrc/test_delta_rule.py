"""The gated delta rule: results, and the states that it leaves."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from aiter_ref import delta_rule as ref
from optest import native

RTOL = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5}
# Sequences, tokens, heads of k and v, sizes: below, at and above vectors and blocks of columns.
SHAPES = [
    (1, 1, 1, 1, 1, 1),
    (3, 4, 2, 4, 33, 19),
    (2, 2, 1, 3, 16, 128),
    (1, 3, 2, 2, 128, 150),
    (0, 2, 1, 1, 4, 4),
    (2, 0, 1, 1, 4, 4),
    (2, 2, 1, 1, 0, 4),
]


@pytest.fixture(scope="module")
def ops():
    return native.csrc("delta_rule")


def operands(shape, dtype):
    sequences, tokens, k_heads, v_heads, key_size, value_size = shape
    # As a model has them: side by side in the result of one projection.
    width = 2 * k_heads * key_size + v_heads * value_size
    mixed = torch.randn(sequences, tokens, width)
    parts = mixed.split([k_heads * key_size, k_heads * key_size, v_heads * value_size], dim=-1)
    heads = ((k_heads, key_size), (k_heads, key_size), (v_heads, value_size))
    q, k, v = (part.unflatten(-1, sizes) for part, sizes in zip(parts, heads, strict=True))
    if key_size:
        q.copy_(F.normalize(q, dim=-1))
        k.copy_(F.normalize(k, dim=-1))
    gates = -torch.rand(sequences, tokens, v_heads), torch.rand(sequences, tokens, v_heads)
    state = torch.randn(sequences + 2, v_heads, key_size, value_size)
    slots = torch.randperm(sequences + 2, dtype=torch.int32)[:sequences]
    q, k, v = (x.to(dtype) if dtype != torch.float32 else x for x in (q, k, v))
    return q, k, v, *gates, state, slots


def assert_rule(ops, q, k, v, g, beta, state, slots):
    want, after = ref.gated_delta_rule(q, k, v, g, beta, state, slots, scale=0.25)
    room = torch.full((*v.shape[:-1], v.shape[-1] + 2), torch.nan, dtype=v.dtype)
    ops.gated_delta_rule(room[..., 1:-1], q, k, v, g, beta, state, slots, 0.25)
    torch.testing.assert_close(room[..., 1:-1], want, rtol=2 * RTOL[v.dtype], atol=1e-5)
    torch.testing.assert_close(state, after, rtol=1e-5, atol=1e-5)
    assert room[..., [0, -1]].isnan().all()


@pytest.mark.parametrize("dtype", RTOL, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gated_delta_rule(ops, shape, dtype):
    """Another head's keys or gates, columns that are left out or done twice, another's slot."""
    assert_rule(ops, *operands(shape, dtype))


def test_padding_and_its_state(ops):
    *given, slots = operands((3, 2, 1, 2, 8, 40), torch.bfloat16)
    slots[1] = -1
    assert_rule(ops, *given, slots)


Q, V, G = torch.zeros(2, 3, 2, 8), torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 4)
STATE, SLOTS = torch.zeros(3, 4, 8, 5), torch.arange(2, dtype=torch.int32)
BAD = {
    "v has dtype": {"v": V.double()},
    "k has dtype": {"k": Q.half()},
    r"k has shape \[2, 3, 2, 7\]": {"k": Q[..., :7]},
    r"out has shape \[2, 3, 4, 4\]": {"out": V[..., :4]},
    "v has 3 heads, expected a multiple": {"v": V[:, :, :3]},
    "q has stride 2": {"q": torch.zeros(2, 3, 8, 2).transpose(2, 3)},
    r"g has shape \[2, 3, 3\]": {"g": G[..., :3]},
    "beta has dtype": {"beta": G.half()},
    "state has dtype": {"state": STATE.half()},
    r"state has shape \[3, 4, 5, 8\]": {"state": STATE.mT},
    "slots has dtype": {"slots": SLOTS.long()},
    "slots holds 3, expected up to 2": {"slots": SLOTS + 2},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    given = {"out": V.clone(), "q": Q, "k": Q, "v": V, "g": G, "beta": G}
    given |= {"state": STATE, "slots": SLOTS}
    with pytest.raises(ValueError, match=message):
        ops.gated_delta_rule(**{**given, **BAD[message]}, scale=1.0)
