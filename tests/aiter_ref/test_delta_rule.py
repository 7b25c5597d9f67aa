"""The gated delta rule against the paper's matrices, and its cost as counted."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F

from aiter_ref import delta_rule as ref

sys.path.append(str(Path(__file__).parent))
from counting import operations


def operands(sequences, tokens, k_heads, v_heads, key_size, value_size):
    q, k = F.normalize(torch.randn(2, sequences, tokens, k_heads, key_size), dim=-1)
    v = torch.randn(sequences, tokens, v_heads, value_size)
    g, beta = -torch.rand(sequences, tokens, v_heads), torch.rand(sequences, tokens, v_heads)
    state = torch.randn(sequences + 2, v_heads, key_size, value_size)
    return q, k, v, g, beta, state, torch.randperm(sequences + 2, dtype=torch.int32)[:sequences]


def by_matrices(q, k, v, g, beta, state, scale):
    """One head as equation 10 has it: S [value, key] times alpha (I - beta k k^T)."""
    made, held = [], state.double().t()
    for t in range(len(q)):
        key, value = k[t].double()[:, None], v[t].double()[:, None]
        kept = torch.eye(len(key), dtype=torch.float64) - beta[t].double() * (key @ key.t())
        held = held @ (g[t].double().exp() * kept) + beta[t].double() * (value @ key.t())
        made.append(scale * (held @ q[t].double()))
    return torch.stack(made), held.t()


def test_each_head_is_equation_10():
    """Heads that take another's keys, a decay after the correction, a state of another slot."""
    q, k, v, g, beta, state, slots = operands(3, 6, 2, 4, 8, 5)
    out, after = ref.gated_delta_rule(q, k, v, g, beta, state, slots, scale=0.3)
    for s, slot in enumerate(slots.tolist()):
        for h in range(4):
            of = (x[s, :, h // 2] for x in (q, k))
            own = (x[s, :, h] for x in (v, g, beta))
            want, held = by_matrices(*of, *own, state[slot, h], 0.3)
            torch.testing.assert_close(out[s, :, h], want.float(), rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(after[slot, h], held.float(), rtol=1e-5, atol=1e-6)
    others = [slot for slot in range(5) if slot not in slots.tolist()]
    assert torch.equal(after[others], state[others])


def test_a_sequence_is_its_tokens_one_by_one():
    q, k, v, g, beta, state, slots = operands(2, 3, 1, 2, 4, 4)
    out, after = ref.gated_delta_rule(q, k, v, g, beta, state, slots, scale=1.0)
    for t in range(3):
        one = (x[:, t : t + 1] for x in (q, k, v, g, beta))
        step, state = ref.gated_delta_rule(*one, state, slots, scale=1.0)
        torch.testing.assert_close(step[:, 0], out[:, t])
    torch.testing.assert_close(state, after)


def test_padding_has_no_state():
    q, k, v, g, beta, state, slots = operands(2, 2, 1, 1, 3, 3)
    slots[0] = -1
    out, after = ref.gated_delta_rule(q, k, v, g, beta, state, slots, scale=1.0)
    assert (out[0] == 0).all()
    changed = (after != state).flatten(1).any(1).nonzero()[:, 0].tolist()
    assert changed == [slots[1]]


def test_cost():
    shape = (3, 2, 2, 4, 16, 8)
    given = operands(*shape)
    cost = ref.gated_delta_rule_cost(*shape, 4)
    finding = 3  # which sequences have a slot: no operation of the formula
    counted = operations(lambda *a: ref.gated_delta_rule(*a, scale=0.5), *given)
    assert counted - finding == cost.flops
    q, k, v, g, beta, state, slots = given
    out, _ = ref.gated_delta_rule(*given, scale=0.5)
    moved = [q, k, v, g, beta, slots, out, state[slots.long()], state[slots.long()]]
    assert cost.nbytes == sum(t.nbytes for t in moved)
