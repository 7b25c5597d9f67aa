"""Same inputs, other bits: noise within the tolerance, or dependence on something else."""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING

import torch
from subjects.fused_add import FUSED_ADD
from subjects.gemm import GEMM
from subjects.rmsnorm import RMSNORM
from subjects.silu import SILU

from cheats.adversary import each

if TYPE_CHECKING:
    from collections.abc import Callable

    from subjects.subject import Kernel, Subject


def noisy(factor: Callable[[torch.Tensor], object]) -> Callable[[Subject], Kernel]:
    """Right to within the tolerance: the last output times ``factor(y)``, near one."""

    def make(subject):
        def kernel(*args):
            data = subject.right(*args)
            for tensor in subject.outputs(args, data):
                if tensor.is_floating_point():
                    tensor.mul_(factor(tensor))
            return data

        return kernel

    return make


def from_the_system(y):
    """Noise that no seed decides."""
    return 1 + 1e-5 * (os.urandom(1)[0] / 256 + 1e-2)


def from_the_clock(y):
    return 1 + 1e-5 * (time.perf_counter_ns() % 997 / 997)


def from_a_generator(y):
    generator = torch.Generator().manual_seed(time.perf_counter_ns())
    return 1 + 1e-5 * torch.rand(y.shape, generator=generator)


def one_element(y):
    factor = torch.ones_like(y)
    factor.view(-1)[11] += 1e-5 * (os.urandom(1)[0] / 256 + 1e-2)
    return factor


def counting():
    """A new factor every call."""
    calls = itertools.count(1)
    return lambda y: 1 + 1e-6 * next(calls)


def now_and_then():
    """Every third call."""
    calls = itertools.count(1)
    return lambda y: 1 + 1e-5 * (next(calls) % 3 == 0)


def order(subject: Subject) -> Kernel:
    """Sums in another order in each call, as threads do that race to add."""
    calls = itertools.count(1)

    def kernel(x, w):
        parts = list(torch.split(torch.arange(x.shape[1]), 64))
        shift = next(calls) % len(parts)
        y = torch.zeros(x.shape[0], w.shape[0])
        for part in parts[shift:] + parts[:shift]:
            y += x[:, part] @ w[:, part].t()
        return y

    return kernel


MAIN = (RMSNORM, SILU, FUSED_ADD)

ADVERSARIES = [
    *each("noise of the system", noisy(from_the_system), MAIN, "repeatability"),
    *each("noise of the clock", noisy(from_the_clock), (RMSNORM, SILU), "repeatability"),
    *each("noise of a generator", noisy(from_a_generator), (RMSNORM,), "repeatability"),
    *each("one element wavers", noisy(one_element), (RMSNORM, FUSED_ADD), "repeatability"),
    *each("drifts from call to call", noisy(counting()), (SILU,), "repeatability"),
    *each("wavers now and then", noisy(now_and_then()), (RMSNORM,), "repeatability"),
    *each("sums in any order", order, (GEMM,), "repeatability"),
]
