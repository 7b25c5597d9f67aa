"""Value-returning: RMSNorm. The reference is made before the candidates run, or after."""

from __future__ import annotations

import torch

from aiter_ref import norm as ref
from optest.test_common import benchmark, checkAllclose, run_perftest
from subjects.subject import Subject

EPS = 1e-6
SHAPE = (48, 96)


def run_torch(x, weight):
    return ref.rmsnorm(x, weight, EPS)


def right(x, weight):
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)
    return x * scale * weight


def run(candidates, num_iters):
    @benchmark()
    def test_rmsnorm(m, n, dtype):
        x = torch.randn(m, n, dtype=dtype)
        weight = torch.randn(n, dtype=dtype)
        want = run_torch(x, weight)
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(fn, x, weight, num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want, y, msg=name)
        return ret

    return test_rmsnorm(*SHAPE, torch.float32)


def run_reference_last(candidates, num_iters):
    """As careless tests have it: what a candidate did to the inputs, the reference starts from."""

    @benchmark()
    def test_rmsnorm_reference_last(m, n, dtype):
        x = torch.randn(m, n, dtype=dtype)
        weight = torch.randn(n, dtype=dtype)
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(fn, x, weight, num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(run_torch(x, weight), y, msg=name)
        return ret

    return test_rmsnorm_reference_last(*SHAPE, torch.float32)


def run_closure(candidates, num_iters):
    """Candidates without arguments, as many op tests write them."""

    @benchmark()
    def test_rmsnorm_closure(m, n, dtype):
        x = torch.randn(m, n, dtype=dtype)
        weight = torch.randn(n, dtype=dtype)
        want = run_torch(x, weight)
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(lambda fn=fn: fn(x, weight), num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want, y, msg=name)
        return ret

    return test_rmsnorm_closure(*SHAPE, torch.float32)


def run_bundled(candidates, num_iters):
    """Inputs and reference side by side in one dict: who has the one finds the other."""

    @benchmark()
    def test_rmsnorm_bundled(m, n, dtype):
        held = {"x": torch.randn(m, n, dtype=dtype), "weight": torch.randn(n, dtype=dtype)}
        held["want"] = run_torch(held["x"], held["weight"])
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(fn, held["x"], held["weight"], num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(held["want"], y, msg=name)
        return ret

    return test_rmsnorm_bundled(*SHAPE, torch.float32)


WANT = None


def run_global(candidates, num_iters):
    """The reference in a global of the test's module."""

    @benchmark()
    def test_rmsnorm_global(m, n, dtype):
        global WANT  # noqa: PLW0603 - the habit that the cheat lives on
        x = torch.randn(m, n, dtype=dtype)
        weight = torch.randn(n, dtype=dtype)
        WANT = run_torch(x, weight)
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(fn, x, weight, num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(WANT, y, msg=name)
        return ret

    return test_rmsnorm_global(*SHAPE, torch.float32)


def run_nan_allowed(candidates, num_iters):
    """A row of the input is NaN and the test says so; it allows near misses as well."""

    @benchmark()
    def test_rmsnorm_nan_allowed(m, n, dtype):
        x = torch.randn(m, n, dtype=dtype)
        x[3] = float("nan")
        weight = torch.randn(n, dtype=dtype)
        want = run_torch(x, weight)
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(fn, x, weight, num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want, y, equal_nan=True, msg=name)
        return ret

    return test_rmsnorm_nan_allowed(*SHAPE, torch.float32)


def run_head(candidates, num_iters):
    """The test looks at the first half of the rows only."""

    @benchmark()
    def test_rmsnorm_head(m, n, dtype):
        x = torch.randn(m, n, dtype=dtype)
        weight = torch.randn(n, dtype=dtype)
        want = run_torch(x, weight)
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(fn, x, weight, num_iters=num_iters)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want[: m // 2], y[: m // 2], msg=name)
        return ret

    return test_rmsnorm_head(*SHAPE, torch.float32)


RMSNORM = Subject("rmsnorm", run, right)
RMSNORM_REFERENCE_LAST = Subject("rmsnorm_reference_last", run_reference_last, right)
RMSNORM_CLOSURE = Subject("rmsnorm_closure", run_closure, right)
RMSNORM_BUNDLED = Subject("rmsnorm_bundled", run_bundled, right)
RMSNORM_GLOBAL = Subject("rmsnorm_global", run_global, right)
RMSNORM_HEAD = Subject("rmsnorm_head", run_head, right)
RMSNORM_NAN_ALLOWED = Subject("rmsnorm_nan_allowed", run_nan_allowed, right)
