"""In place: tokens written to the slots of a cache; the rest of the cache stays as it is."""

from __future__ import annotations

import torch

from optest.test_common import benchmark, checkAllclose, run_perftest
from subjects.subject import Subject

TOKENS, SLOTS, WIDTH = 24, 96, 32


def run_torch(key, cache, slots):
    kept = slots >= 0
    cache[slots[kept]] = key[kept]
    return cache


def right(key, cache, slots):
    valid = slots.ge(0).nonzero().flatten()
    cache.index_copy_(0, slots.index_select(0, valid), key.index_select(0, valid))


def run(candidates, num_iters):
    @benchmark(inout=("cache",))
    def test_kv_cache(tokens, width, dtype):
        key = torch.randn(tokens, width, dtype=dtype)
        before = torch.randn(SLOTS, width, dtype=dtype)
        slots = torch.randperm(SLOTS)[:tokens]
        slots[-3:] = -1  # padding
        want = run_torch(key, before.clone(), slots)
        ret = {}
        for name, fn in candidates.items():
            cache = before.clone()
            us = run_perftest(fn, key, cache, slots, num_iters=num_iters)[1]
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(
                want, cache, rtol=0, atol=0, tol_err_ratio=0, msg=name
            )
        return ret

    return test_kv_cache(TOKENS, WIDTH, torch.float32)


KV_CACHE = Subject("kv_cache", run, right, written=(1,))
