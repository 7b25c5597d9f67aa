"""In place: a residual sum and its norm, into the tensors that they came in."""

from __future__ import annotations

import torch

from aiter_ref import norm as ref
from optest.test_common import benchmark, checkAllclose, run_perftest
from subjects.subject import Subject

EPS = 1e-6
SHAPE = (48, 96)


def run_torch(x, residual, weight):
    return ref.fused_add_rmsnorm(x, residual, weight, EPS)


def right(x, residual, weight):
    residual.add_(x)
    scale = torch.rsqrt(residual.pow(2).mean(-1, keepdim=True) + EPS)
    x.copy_(residual * scale * weight)


def run(candidates, num_iters):
    @benchmark(inout=("x", "residual"))
    def test_fused_add(m, n, dtype):
        given = torch.randn(m, n, dtype=dtype), torch.randn(m, n, dtype=dtype)
        weight = torch.randn(n, dtype=dtype)
        wants = run_torch(*given, weight)
        ret = {}
        for name, fn in candidates.items():
            x, residual = (tensor.clone() for tensor in given)
            us = run_perftest(fn, x, residual, weight, num_iters=num_iters)[1]
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(wants[0], x, msg=f"{name}: x")
            checkAllclose(wants[1], residual, msg=f"{name}: residual")
        return ret

    return test_fused_add(*SHAPE, torch.float32)


FUSED_ADD = Subject("fused_add", run, right, written=(0, 1))
