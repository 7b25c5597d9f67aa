"""Triton kernel of the gated delta rule: columns of a state stay in registers, token by token."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import block_of, cast, load_fp32, require

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_COLUMNS = 32  # of a state of 128 rows: 4096 numbers in the registers of a program


@triton.jit
def delta_kernel(
    out, q, k, v, g, beta, state, slots, scale, tokens, group, key_size, value_size,
    out_sequence, out_token, out_head, q_sequence, q_token, q_head,
    k_sequence, k_token, k_head, v_sequence, v_token, v_head,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Program (i, h, s) takes block i of the columns of head h of sequence s."""
    head, sequence = tl.program_id(1), tl.program_id(2).to(tl.int64)
    heads = tl.num_programs(1)
    rows = tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    slot = tl.load(slots + sequence).to(tl.int64)
    exists = tl.zeros([COLUMNS], dtype=tl.int64) + slot >= 0
    inside = columns < value_size
    tile = (rows[:, None] < key_size) & (inside & exists)[None, :]
    state_at = state + (slot * heads + head) * key_size * value_size
    state_at = state_at + rows[:, None] * value_size + columns[None, :]
    held = tl.load(state_at, mask=tile, other=0.0)
    for t in range(tokens):
        q_at = q + sequence * q_sequence + t * q_token + head // group * q_head
        k_at = k + sequence * k_sequence + t * k_token + head // group * k_head
        v_at = v + sequence * v_sequence + t * v_token + head * v_head
        query, key = (
            load_fp32(q_at + rows, rows < key_size),
            load_fp32(k_at + rows, rows < key_size),
        )
        gate = (sequence * tokens + t) * heads + head
        held = held * tl.exp(tl.load(g + gate))
        value = load_fp32(v_at + columns, inside)
        delta = (value - tl.sum(held * key[:, None], 0)) * tl.load(beta + gate)
        held = held + key[:, None] * delta[None, :]
        made = tl.sum(held * query[:, None], 0) * scale
        out_at = out + sequence * out_sequence + t * out_token + head * out_head + columns
        result = tl.where(exists, made, 0.0)
        tl.store(out_at, cast(result, out.dtype.element_ty), mask=inside)
    tl.store(state_at, held, mask=tile)


def gated_delta_rule(
    out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    slots: torch.Tensor,
    scale: float,
) -> None:
    """Write out [sequences, tokens, v_heads, value_size]; move the states of the slots on.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    require(v.dim() == 4, f"v: shape {tuple(v.shape)}, expected [sequences, tokens, heads, size].")
    require(q.dim() == 4, f"q: shape {tuple(q.shape)}, expected [sequences, tokens, heads, size].")
    require(v.dtype in _DTYPES, f"v: {v.dtype}, expected one of {_DTYPES}.")
    sequences, tokens, v_heads, value_size = v.shape
    k_heads, key_size = q.shape[2:]
    require(
        v_heads % max(k_heads, 1) == 0 and (k_heads or not v_heads),
        f"v: {v_heads} heads, expected a multiple of those of q, {k_heads}.",
    )
    for name, tensor, heads, size in (
        ("q", q, k_heads, key_size),
        ("k", k, k_heads, key_size),
        ("v", v, v_heads, value_size),
        ("out", out, v_heads, value_size),
    ):
        _require_heads(name, tensor, (sequences, tokens, heads, size), v.dtype)
    gates = (sequences, tokens, v_heads)
    _require_whole("g", g, gates, torch.float32)
    _require_whole("beta", beta, gates, torch.float32)
    _require_whole("slots", slots, (sequences,), torch.int32)
    expected = (state.shape[0], v_heads, key_size, value_size)
    _require_whole("state", state, expected, torch.float32)
    if out.numel():
        columns = block_of(value_size, largest=_COLUMNS)
        delta_kernel[(triton.cdiv(value_size, columns), v_heads, sequences)](
            out, q, k, v, g, beta, state, slots, scale, tokens, v_heads // k_heads, key_size,
            value_size, *out.stride()[:3], *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
            ROWS=int(triton.next_power_of_2(max(key_size, 1))), COLUMNS=columns,
        )  # fmt: skip


def _require_heads(
    name: str, tensor: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    require(
        tuple(tensor.shape) == shape and tensor.dtype is dtype,
        f"{name}: {tensor.dtype} of shape {tuple(tensor.shape)}, expected {dtype} {shape}.",
    )
    require(
        shape[-1] <= 1 or tensor.stride(-1) == 1,
        f"{name}: strides {tensor.stride()}, expected the last to be 1.",
    )


def _require_whole(
    name: str, tensor: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    require(
        tuple(tensor.shape) == shape and tensor.dtype is dtype and tensor.is_contiguous(),
        f"{name}: {tensor.dtype} of shape {tuple(tensor.shape)}, expected contiguous {dtype} "
        f"{shape}.",
    )
