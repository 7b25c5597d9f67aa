"""An honest kernel under an op test that says what it must; and the plainest such op test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from optest.test_common import benchmark, checkAllclose, run_perftest

ITERS = 12
M, N = 32, 48


@dataclass(frozen=True)
class Honest:
    """One row of the table.

    Attributes:
        name: what is awkward about it.
        run: the op test; ``run(watch)`` with ``watch(kernel)`` around each candidate.
        modes: those in which it is tried.
    """

    name: str
    run: Callable[[Callable[..., Any]], Any]
    modes: tuple[str, ...] = ("check", "run")


def plain(
    make: Callable[[], Callable[..., Any]],
    reference: Callable[..., Any],
    inputs: Callable[[], tuple[Any, ...]] = lambda: (torch.randn(M, N),),
    **declared: Any,
) -> Callable[[Callable[..., Any]], Any]:
    """The op test of a kernel that returns what it makes; ``make()`` gives one without a past."""

    def run(watch):
        @benchmark(**declared)
        def test_op():
            given = inputs()
            want = reference(*given)
            got, us = run_perftest(watch(make()), *given, num_iters=ITERS)
            errs = [
                checkAllclose(torch.as_tensor(a), torch.as_tensor(b), rtol=1e-3, atol=1e-4)
                for a, b in zip(tree_leaves(want), tree_leaves(got), strict=True)
            ]
            return {"us": us, "err": max(errs)}

        return test_op()

    return run


def always(kernel: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    """A kernel that has no past."""
    return lambda: kernel
