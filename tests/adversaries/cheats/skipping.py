"""Work done while somebody looks, and left undone later."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from subjects.fused_add import FUSED_ADD
from subjects.gemm import GEMM
from subjects.kv_cache import KV_CACHE
from subjects.quant import QUANT
from subjects.rmsnorm import RMSNORM
from subjects.silu import SILU

from cheats.adversary import CHECK, Adversary, each

if TYPE_CHECKING:
    from collections.abc import Callable

    from subjects.subject import Kernel, Subject


def works(when: Callable[[int], bool]) -> Callable[[Subject], Kernel]:
    """Works in the calls that ``when`` names, the first being 0; else hands out the last answer."""

    def make(subject):
        calls, last = itertools.count(), []

        def kernel(*args):
            if when(next(calls)) or not last:
                last[:] = [subject.right(*args)]
            return last[0]

        return kernel

    return make


def wrong(when: Callable[[int], bool]) -> Callable[[Subject], Kernel]:
    """Right, and then scaled by two in the calls that ``when`` names."""

    def make(subject):
        calls = itertools.count()

        def kernel(*args):
            data = subject.right(*args)
            if when(next(calls)):
                for tensor in subject.outputs(args, data):
                    tensor.mul_(2)
            return data

        return kernel

    return make


MAIN = (RMSNORM, SILU, FUSED_ADD)
STALE = "fresh inputs", "memoised", "repeatability"

ADVERSARIES = [
    *(
        adversary
        for n in (1, 2, 3, 5)
        for adversary in each(f"skips after {n} calls", works(lambda at, n=n: at < n), MAIN, *STALE)
    ),
    *each("skips after 1 call", works(lambda at: at < 1), (QUANT, KV_CACHE), *STALE),
    *each("skips after 2 calls", works(lambda at: at < 2), MAIN, *STALE, CHECK, mode="run"),
    *(
        Adversary(
            "skips after 20 calls", works(lambda at: at < 20), subject, (*STALE, CHECK), "run",
            num_iters=30,
        )
        for subject in (GEMM, SILU, FUSED_ADD)
    ),
    *each("skips every other call", works(lambda at: at % 2 == 0), MAIN, *STALE),
    *each("right first, wrong later", wrong(lambda at: at > 0), MAIN, *STALE),
    *each("wrong first, right later", wrong(lambda at: at == 0), MAIN, CHECK, *STALE),
    *each("wrong every third call", wrong(lambda at: at % 3 == 2), MAIN, *STALE),
    *each("right first, wrong later", wrong(lambda at: at > 2), MAIN, *STALE, CHECK, mode="run"),
]  # fmt: skip
