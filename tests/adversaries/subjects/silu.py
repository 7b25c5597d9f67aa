"""Out-parameter: a gated activation into a buffer of the caller's; what it returns is dropped."""

from __future__ import annotations

import torch

from aiter_ref import activation as ref
from optest.test_common import benchmark, checkAllclose, run_perftest
from subjects.subject import Subject

SHAPE = (48, 96)


def run_torch(x):
    return ref.silu_and_mul(x)


def right(x, y):
    gate, up = x.chunk(2, dim=-1)
    y.copy_(gate * torch.sigmoid(gate) * up)


def run(candidates, num_iters):
    @benchmark()
    def test_silu_and_mul(m, d, dtype):
        x = torch.randn(m, 2 * d, dtype=dtype)
        want = run_torch(x)
        ret = {}
        for name, fn in candidates.items():
            y = torch.empty(m, d, dtype=dtype)
            us = run_perftest(fn, x, y, num_iters=num_iters)[1]
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want, y, msg=name)
        return ret

    return test_silu_and_mul(*SHAPE, torch.float32)


def run_one_buffer(candidates, num_iters):
    """All candidates write to one buffer, in which the second finds what the first left."""

    @benchmark()
    def test_silu_one_buffer(m, d, dtype):
        x = torch.randn(m, 2 * d, dtype=dtype)
        want = run_torch(x)
        y = torch.zeros(m, d, dtype=dtype)
        ret = {}
        for name, fn in candidates.items():
            us = run_perftest(fn, x, y, num_iters=num_iters)[1]
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want, y, msg=name)
        return ret

    return test_silu_one_buffer(*SHAPE, torch.float32)


def run_columns(candidates, num_iters):
    """The buffer is the left half of a wider one; the right half is somebody else's."""

    @benchmark(inout=("y",))
    def test_silu_columns(m, d, dtype):
        x = torch.randn(m, 2 * d, dtype=dtype)
        want = run_torch(x)
        ret = {}
        for name, fn in candidates.items():
            y = torch.randn(m, 2 * d, dtype=dtype)[:, :d]
            us = run_perftest(fn, x, y, num_iters=num_iters)[1]
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want, y, msg=name)
        return ret

    return test_silu_columns(*SHAPE, torch.float32)


def run_head(candidates, num_iters):
    """The test looks at the first half of the rows only."""

    @benchmark()
    def test_silu_head(m, d, dtype):
        x = torch.randn(m, 2 * d, dtype=dtype)
        want = run_torch(x)
        ret = {}
        for name, fn in candidates.items():
            y = torch.empty(m, d, dtype=dtype)
            us = run_perftest(fn, x, y, num_iters=num_iters)[1]
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want[: m // 2], y[: m // 2], msg=name)
        return ret

    return test_silu_head(*SHAPE, torch.float32)


SILU = Subject("silu", run, right, written=(1,))
SILU_HEAD = Subject("silu_head", run_head, right, written=(1,))
SILU_COLUMNS = Subject("silu_columns", run_columns, right, written=(1,))
SILU_ONE_BUFFER = Subject("silu_one_buffer", run_one_buffer, right, written=(1,))
