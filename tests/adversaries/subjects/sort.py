"""Value-returning: a sort on one thread, some ms; a look at all of its input takes some µs."""

from __future__ import annotations

import numpy as np
import torch

from optest.test_common import benchmark, checkAllclose, run_perftest
from subjects.subject import Subject

N = 1 << 16


def run_torch(x):
    return x.sort().values


def right(x):
    return torch.from_numpy(np.sort(x.numpy(), kind="heapsort"))


def run(candidates, num_iters):
    @benchmark()
    def test_sort(n, dtype):
        x = torch.randn(n, dtype=dtype)
        want = run_torch(x)
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(fn, x, num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want, y, rtol=0, atol=0, msg=name)
        return ret

    return test_sort(N, torch.float32)


SORT = Subject("sort", run, right)
