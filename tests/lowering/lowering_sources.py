"""Sources of small op tests, each with kernels of its own."""

from __future__ import annotations

_HEAD = """
import argparse
import torch
import triton
import triton.language as tl
from optest import dtypes, logger
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SMOKE = ["-n", "64"]
"""

_MAIN = """
def main():
    if get_gfx() not in {gate}:
        logger.warning("not for %s", get_gfx())
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, nargs="+", default=[1024, 1000])
    summarize("t", [test_op(n) for n in parser.parse_args().n])


if __name__ == "__main__":
    main()
"""

_GATE = '["gfx942", "gfx950", "sm_90"]'

# Two specialisations of one kernel by what divides n and where the view begins, and one of another,
# whose constant is read from a tensor; the quantised output has the flavour of the card. A
# candidate that is torch's alone comes first, and one that fails between the two that launch.
GOOD = (
    _HEAD
    + """
@triton.jit
def scale_kernel(x, q, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(q + at, (value * FACTOR).to(q.dtype.element_ty), mask=at < n)


@triton.jit
def fill_kernel(y, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, 1.0, mask=at < LENGTH)


@benchmark()
def test_op(n):
    x = torch.randn(n + 1, dtype=dtypes.bf16)
    x = x[1:] if n % 16 else x[:n]
    lengths = torch.tensor([n - 3, n - 7, 0])
    lengths[2:] = 5
    lengths = lengths[lengths > 5]
    q = torch.empty(n, dtype=dtypes.fp8)
    candidates = {
        "torch": lambda: x.float() * 2,
        "triton": lambda: scale_kernel[(triton.cdiv(n, 256),)](x, q, n, FACTOR=2.0, BLOCK=256),
        "fill": lambda: fill_kernel[(1,)](x, LENGTH=int(lengths.max()), BLOCK=2048, num_warps=2),
    }
    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        data, us = run_perftest(fn)
        ret[f"{name} us"] = us
        ret[f"{name} err"] = max(checkAllclose(x, data), checkAllclose(x, data))
    return ret
"""
    + _MAIN.format(gate=_GATE)
)

BAD = (
    _HEAD
    + """
@triton.jit
def refused_kernel(x, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 4096, "the block is too short for this kernel")
    tl.store(x + tl.arange(0, BLOCK), 0.0)


@triton.jit
def wide_kernel(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    tile = tl.load(x + rows * COLUMNS + columns)
    turned = y + tl.arange(0, COLUMNS)[:, None] * ROWS + tl.arange(0, ROWS)[None, :]
    tl.store(turned, tl.trans(tile))


@triton.constexpr_function
def dies(block):
    getattr(__import__("os"), "abort")()
    return block


@triton.jit
def crashing_kernel(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, dies(BLOCK)), 0.0)


def raises(x):
    raise ValueError("no such layout")


@benchmark()
def test_op(n):
    x, y = torch.randn(128, 256), torch.randn(256, 128)
    ret = {}
    for name, fn in {
        "raises": lambda: raises(x),
        "refused": lambda: refused_kernel[(1,)](x, BLOCK=1024),
        "crashes": lambda: crashing_kernel[(1,)](x, BLOCK=64),
        "wide": lambda: wide_kernel[(1,)](x, y, ROWS=128, COLUMNS=256, num_warps=16),
    }.items():
        data, ret[f"{name} us"] = run_perftest(fn)
    return ret
"""
    + _MAIN.format(gate='["gfx942"]')
)
