"""Triton kernels at the top of a module, where the process that compiles for GPUs finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

    from optest.golden.direction import In, Out


@triton.jit
def _scaled(pointer, mask, FACTOR: tl.constexpr):
    return tl.load(pointer, mask=mask) * FACTOR


@triton.jit
def _put(pointer, value, mask):
    tl.store(pointer, value, mask=mask)


@triton.jit
def scale_kernel(x, y, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, _scaled(x + at, at < n, FACTOR), mask=at < n)


@triton.jit
def cast_kernel(x: "In", y: "Out", n, TO: tl.constexpr, BLOCK: tl.constexpr = 32):  # noqa: UP037 - Triton evaluates others
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n).to(TO), mask=at < n)


@triton.jit
def accumulate_kernel(x, total, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    here = total + at
    tl.store(here, tl.load(here) + tl.load(x + at))


@triton.jit
def atomic_kernel(x, count, BLOCK: tl.constexpr):
    tl.atomic_add(count, tl.sum(tl.load(x + tl.arange(0, BLOCK))))


@triton.jit
def branch_kernel(x, y, z, BOTH: tl.constexpr, MODE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    if MODE == "square" and BLOCK > 1:
        value = value * value
    if BOTH is not None:
        _put(z + at, value, at < BLOCK)
    target = y if BOTH is None or MODE == "square" else z
    target += at
    target.store(value)


@triton.jit
def loop_kernel(x, y, z, n, BLOCK: tl.constexpr):
    """Pointers that only a second look at the loop tells: ``to`` is ``z`` from the second on."""
    at = tl.arange(0, BLOCK)
    to = y
    nxt = z
    for _ in range(2):
        tl.store(to + at, tl.load(x + at), mask=at < n)
        to = nxt


@triton.jit
def block_kernel(x, y, n, BLOCK: tl.constexpr):
    source = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    target = tl.make_tensor_descriptor(y, [n], [1], [BLOCK])
    target.store([0], tl.load(source))


@triton.jit
def through_memory_kernel(table, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    pointer = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(pointer + at, at)


@triton.jit
def facts_kernel(x, y, BLOCK: tl.constexpr):
    """The dtype of an output is no read of it, and an index from memory is no pointer."""
    at = tl.arange(0, BLOCK)
    row = tl.load(x.to(tl.pointer_type(y.dtype.element_ty)) + at).to(tl.int32)
    value = tl.where(at < 2, at, 0).to(y.dtype.element_ty)
    tl.store(y + row, value)


@triton.jit
def marked_kernel(x: "In", y: "Out[[64], torch.float32]", BLOCK: tl.constexpr):  # noqa: UP037
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


def moved(pointer, by):
    """No Triton function: the interpreter calls it, the compiler would not."""
    return pointer + by


@triton.jit
def opaque_kernel(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(moved(y, at), tl.load(x + at))


@triton.autotune(configs=[triton.Config({"BLOCK": 16})], key=[])
@triton.jit
def tuned_kernel(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


@triton.heuristics({"BLOCK": lambda args: 16})
@triton.jit
def guessed_kernel(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def alternating_kernel(x, y, z, n, BLOCK: tl.constexpr, BOTH: tl.constexpr = True):
    """A pointer chosen in a loop that is unrolled, and a store in one that is not."""
    at = tl.arange(0, BLOCK)
    source, target = x, y
    for step in tl.static_range(2):
        if step == 1:
            target = z
        tl.store(target + at, tl.load(source + at))
    left = n
    while left > 0:
        if left == 1 and (BOTH or n > 2):
            tl.atomic_add(x + at, 1.0)
        left -= 1


WRITES_Z = tl.constexpr(False)


@triton.jit
def switched_kernel(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if WRITES_Z:
        tl.store(z + at, tl.load(x + at))
    tl.store(y + at, tl.load(x + at) if WRITES_Z else 1.0)


@triton.jit
def middle_kernel(x, BLOCK: tl.constexpr, y):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


def inside():
    @triton.jit
    def kernel(x):
        tl.store(x, 1.0)

    return kernel
