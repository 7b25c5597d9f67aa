"""Value-returning: a matrix product."""

from __future__ import annotations

import torch

from aiter_ref import gemm as ref
from optest.test_common import benchmark, checkAllclose, run_perftest
from subjects.subject import Subject

N = 192


def run_torch(x, w):
    return ref.gemm_a16w16(x, w, x.dtype)


def right(x, w):
    return torch.nn.functional.linear(x, w)


def run(candidates, num_iters):
    @benchmark()
    def test_gemm(m, n, k, dtype):
        x = torch.randn(m, k, dtype=dtype)
        w = torch.randn(n, k, dtype=dtype)
        want = run_torch(x, w)
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(fn, x, w, num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want, y, msg=name)
        return ret

    return test_gemm(N, N, N, torch.float32)


GEMM = Subject("gemm", run, right)
