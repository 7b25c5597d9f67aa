"""Value-returning: the left half of the columns, in memory of its own."""

from __future__ import annotations

import torch

from optest.test_common import benchmark, checkAllclose, run_perftest
from subjects.subject import Subject

SHAPE = (48, 96)


def run_torch(x):
    return x[:, : x.shape[1] // 2].clone()


def right(x):
    return torch.narrow_copy(x, 1, 0, x.shape[1] // 2)


def run(candidates, num_iters):
    @benchmark()
    def test_split(m, n, dtype):
        x = torch.randn(m, n, dtype=dtype)
        want = run_torch(x)
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(fn, x, num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want, y, rtol=0, atol=0, msg=name)
        return ret

    return test_split(*SHAPE, torch.float32)


SPLIT = Subject("split", run, right)
