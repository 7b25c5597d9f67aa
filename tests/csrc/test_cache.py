"""KV-cache writes against index assignment."""

from __future__ import annotations

import pytest
import torch

from optest import native

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
BLOCKS, BLOCK_SIZE, HEADS, SIZE = 5, 16, 3, 40


@pytest.fixture(scope="module")
def ops():
    return native.csrc("cache")


def make(dtype, tokens: int, seed: int = 0):
    torch.manual_seed(seed)
    key, value = torch.randn(2, tokens, HEADS, SIZE).to(dtype)
    caches = torch.randn(2, BLOCKS, BLOCK_SIZE, HEADS, SIZE).to(dtype)
    slots = torch.randperm(BLOCKS * BLOCK_SIZE)[:tokens]
    return key, value, caches[0], caches[1], slots


def expected(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    want = cache.clone()
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            want[slot // BLOCK_SIZE, slot % BLOCK_SIZE] = rows[token]
    return want


@pytest.mark.parametrize("tokens", [0, 1, 33, 80])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_token_lands_in_its_slot_and_nothing_else_changes(ops, dtype, tokens):
    key, value, key_cache, value_cache, slots = make(dtype, tokens)
    want = expected(key_cache, key, slots), expected(value_cache, value, slots)
    ops.reshape_and_cache(key, value, key_cache, value_cache, slots)
    assert torch.equal(key_cache, want[0])
    assert torch.equal(value_cache, want[1])


def test_negative_slots_are_skipped(ops):
    key, value, key_cache, value_cache, slots = make(torch.float16, 20)
    slots[::3] = -1
    want = expected(key_cache, key, slots)
    ops.reshape_and_cache(key, value, key_cache, value_cache, slots)
    assert torch.equal(key_cache, want)


def test_strided_tokens_and_permuted_caches(ops):
    """Keys and values as slices of one projection; a cache with heads outside of positions."""
    _, _, _, _, slots = make(torch.bfloat16, 30)
    fused = torch.randn(30, HEADS, 2 * SIZE).bfloat16()
    key, value = fused[..., :SIZE], fused[..., SIZE:]
    caches = torch.zeros(BLOCKS, 2, HEADS, BLOCK_SIZE, SIZE).bfloat16()
    key_cache, value_cache = caches.transpose(2, 3).unbind(1)
    want = expected(key_cache, key, slots), expected(value_cache, value, slots)
    ops.reshape_and_cache(key, value, key_cache, value_cache, slots)
    assert torch.equal(key_cache, want[0])
    assert torch.equal(value_cache, want[1])


def test_values_of_another_head_size(ops):
    key, _, key_cache, _, slots = make(torch.bfloat16, 12)
    value, value_cache = torch.randn(12, HEADS, 24).bfloat16(), torch.zeros(5, 16, HEADS, 24)
    value_cache = value_cache.bfloat16()
    want = expected(value_cache, value, slots)
    ops.reshape_and_cache(key, value, key_cache, value_cache, slots)
    assert torch.equal(value_cache, want)


def test_past_the_caches(ops):
    tokens, heads, size = 9000, 8, 1157
    key = torch.randn(100, heads, size).bfloat16().repeat(90, 1, 1)
    caches = torch.zeros(2, tokens // 100, 100, heads, size).bfloat16()
    slots = torch.arange(tokens).flip(0)
    ops.reshape_and_cache(key, key, caches[0], caches[1], slots)
    assert torch.equal(caches[0].reshape(tokens, heads, size), key.flip(0))
    assert torch.equal(caches[0], caches[1])


def call(ops, **changes):
    key, value, key_cache, value_cache, slots = make(torch.float16, 4)
    names = {
        "key": key,
        "value": value,
        "key_cache": key_cache,
        "value_cache": value_cache,
        "slot_mapping": slots,
    }
    names.update(changes)
    ops.reshape_and_cache(**names)


KEY = torch.zeros(4, HEADS, SIZE, dtype=torch.float16)
CACHE = torch.zeros(BLOCKS, BLOCK_SIZE, HEADS, SIZE, dtype=torch.float16)
BAD = {
    r"slot_mapping\[2\] is 80, expected below 80": {"slot_mapping": torch.tensor([0, 1, 80, 3])},
    "slot_mapping has dtype Int": {"slot_mapping": torch.zeros(4, dtype=torch.int32)},
    "key has shape .*expected 3 tokens": {"slot_mapping": torch.arange(3)},
    r"key has shape \[4, 120\]": {"key": KEY.flatten(1)},
    "key_cache has dtype Float": {"key_cache": CACHE.float()},
    r"value_cache has shape .*\[blocks, block_size, 3, 40\]": {"value_cache": CACHE[:, :, :2]},
    "value has stride 2": {"value": torch.zeros(4, HEADS, SIZE, 2, dtype=torch.float16)[..., 0]},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        call(ops, **BAD[message])
