"""Two outputs: int8 values and a scale a row, into buffers, or returned as a pair."""

from __future__ import annotations

import torch

from aiter_ref import quant as ref
from optest.test_common import benchmark, checkAllclose, run_perftest
from subjects.subject import Subject

SHAPE = (48, 96)


def run_torch(x):
    return ref.dynamic_per_token_quant(x, torch.int8)


def right_pair(x):
    scales = x.abs().amax(-1, keepdim=True) / 127
    return torch.round(x / scales).to(torch.int8), scales


def right(x, q, scales):
    values, found = right_pair(x)
    q.copy_(values)
    scales.copy_(found)


def check(want, q, scales, name):
    values, found = want
    err = checkAllclose(
        values, q, rtol=0, atol=0, tol_err_ratio=1e-3, max_abs_delta=1, msg=f"{name}: values"
    )
    checkAllclose(found, scales, rtol=0, atol=0, tol_err_ratio=0, msg=f"{name}: scales")
    return err


def run(candidates, num_iters):
    @benchmark()
    def test_quant(m, k, dtype):
        x = torch.randn(m, k, dtype=dtype)
        want = run_torch(x)
        ret = {}
        for name, fn in candidates.items():
            q = torch.empty(m, k, dtype=torch.int8)
            scales = torch.empty(m, 1, dtype=torch.float32)
            us = run_perftest(fn, x, q, scales, num_iters=num_iters)[1]
            ret[f"{name} us"] = us
            ret[f"{name} err"] = check(want, q, scales, name)
        return ret

    return test_quant(*SHAPE, torch.float32)


def run_pair(candidates, num_iters):
    @benchmark()
    def test_quant_pair(m, k, dtype):
        x = torch.randn(m, k, dtype=dtype)
        want = run_torch(x)
        ret = {}
        for name, fn in candidates.items():
            data, us = run_perftest(fn, x, num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = check(want, data[0], data[1], name)
        return ret

    return test_quant_pair(*SHAPE, torch.float32)


QUANT = Subject("quant", run, right, written=(1, 2))
QUANT_PAIR = Subject("quant_pair", run_pair, right_pair)
