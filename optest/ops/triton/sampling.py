"""Triton kernel that draws tokens; the rules are those of ``aiter_ref.sampling``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import block_of, require, require_rows
from optest.ops.triton.routing import key_of

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_LARGEST_BLOCK = 2048
_SIGN = tl.constexpr(-(2**31))


@triton.jit
def _logits(row, columns, n):
    return tl.load(row + columns, mask=columns < n, other=-float("inf")).to(tl.float32)


@triton.jit
def _weight(value, largest):
    """e^(value - largest), 0 for what is too small to be drawn."""
    below = value - largest
    return tl.where(below > -87.0, tl.exp(below), 0.0)


@triton.jit
def _count_and_mass(row, n, largest, key, BLOCK: tl.constexpr):
    """How many logits have ``key`` or a larger one, and the sum of their weights."""
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros([BLOCK], dtype=tl.int32)
    mass = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + lanes
        value = _logits(row, columns, n)
        inside = (columns < n) & (key_of(value) >= key)
        count += inside.to(tl.int32)
        mass += tl.where(inside, _weight(value, largest), 0.0)
    return tl.sum(count, 0), tl.sum(mass, 0)


@triton.jit
def _least_key(row, n, largest, wanted, BY_MASS: tl.constexpr, BLOCK: tl.constexpr):
    """Largest key that lets in ``wanted`` logits or, ``BY_MASS``, weights of that sum."""
    one = tl.full([], 1, dtype=tl.int32)
    found = tl.full([], 0, dtype=tl.int32)
    for bit in range(32):
        trial = found | (one << (31 - bit))
        count, mass = _count_and_mass(row, n, largest, trial ^ _SIGN, BLOCK)
        if BY_MASS:
            found = tl.where(mass >= wanted, trial, found)
        else:
            found = tl.where(count >= wanted, trial, found)
    return found ^ _SIGN


@triton.jit
def _weight_of_key(key, largest):
    bits = key ^ ((key >> 31) & 0x7FFFFFFF)
    return _weight(bits.to(tl.float32, bitcast=True), largest)


@triton.jit
def sampling_kernel(
    tokens, logits, top_k, top_p, min_p, uniform, n, logit_row,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Program i draws from row i.

    Tokens that are kept have a key above ``least``, or that key and come first among its equals.
    Each limit's least key is the largest that lets enough in.
    """
    index = tl.program_id(0).to(tl.int64)
    row = logits + index * logit_row
    lanes = tl.arange(0, BLOCK)
    best = tl.full([BLOCK], -float("inf"), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        best = tl.maximum(best, _logits(row, start + lanes, n))
    largest = tl.max(best, 0)

    k = tl.load(top_k + index)
    k = tl.where((k <= 0) | (k > n), n, k)
    least = tl.full([], _SIGN, dtype=tl.int32)
    if k < n:
        least = _least_key(row, n, largest, k, False, BLOCK)
    above, mass = _count_and_mass(row, n, largest, least + 1, BLOCK)
    equals = k - above  # of those with the least key, how many are kept

    p = tl.load(top_p + index)
    if p < 1.0:
        target = p * (mass + tl.where(equals > 0, equals * _weight_of_key(least, largest), 0.0))
        nucleus = _least_key(row, n, largest, target, True, BLOCK)
        nucleus = tl.minimum(nucleus, key_of(largest))  # the first is always kept
        if nucleus >= least:
            above, mass = _count_and_mass(row, n, largest, nucleus + 1, BLOCK)
            wanted = tl.ceil((target - mass) / _weight_of_key(nucleus, largest)).to(tl.int32)
            wanted = tl.maximum(wanted, 1)
            equals = tl.where(nucleus == least, tl.minimum(wanted, equals), wanted)
            least = nucleus

    floor = tl.load(min_p + index)
    share = tl.load(uniform + index)
    total = 0.0
    equal_before = 0
    for start in range(0, n, BLOCK):
        weight, equal_before = _kept(
            row, start + lanes, n, largest, least, equals, floor, equal_before
        )
        total += tl.sum(weight, 0)
    running = 0.0
    equal_before = 0
    token = n
    last = 0
    for start in range(0, n, BLOCK):
        columns = start + lanes
        weight, equal_before = _kept(row, columns, n, largest, least, equals, floor, equal_before)
        sums = running + tl.cumsum(weight, 0)
        past = (weight > 0) & (sums > share * total)
        token = tl.minimum(token, tl.min(tl.where(past, columns, n), 0))
        last = tl.maximum(last, tl.max(tl.where(weight > 0, columns, 0), 0))
        running += tl.sum(weight, 0)
    tl.store(tokens + index, tl.where(token < n, token, last))


@triton.jit
def _kept(row, columns, n, largest, least, equals, floor, equal_before):
    """Weights of the tokens that are kept, 0 for the others; how many had the least key so far."""
    value = _logits(row, columns, n)
    key = key_of(value)
    inside = columns < n
    equal = (inside & (key == least)).to(tl.int32)
    rank = equal_before + tl.cumsum(equal, 0)
    weight = _weight(value, largest)
    kept = inside & ((key > least) | ((equal == 1) & (rank <= equals))) & (weight >= floor)
    return tl.where(kept, weight, 0.0), equal_before + tl.sum(equal, 0)


def sampling(
    tokens: torch.Tensor,
    logits: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    uniform: torch.Tensor,
) -> None:
    """Write tokens [m] drawn from logits [m, n] by the numbers of each row.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    require(
        logits.dim() == 2 and logits.dtype in _DTYPES,
        f"logits: {logits.dtype} {tuple(logits.shape)}, expected [m, n] of one of {_DTYPES}.",
    )
    require_rows("logits", logits, tuple(logits.shape))
    m, n = logits.shape
    for name, each, dtype in (
        ("tokens", tokens, torch.int32),
        ("top_k", top_k, torch.int32),
        ("top_p", top_p, torch.float32),
        ("min_p", min_p, torch.float32),
        ("uniform", uniform, torch.float32),
    ):
        require(
            tuple(each.shape) == (m,) and each.is_contiguous() and each.dtype is dtype,
            f"{name}: {each.dtype} {tuple(each.shape)}, expected contiguous {dtype} ({m},).",
        )
    if not n:
        tokens.fill_(-1)
    elif m:
        block = block_of(n, largest=_LARGEST_BLOCK)
        sampling_kernel[(m,)](
            tokens, logits, top_k, top_p, min_p, uniform, n, logits.stride(0), BLOCK=block
        )
