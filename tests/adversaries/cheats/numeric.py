"""Wrong numbers, few or many, where a check might not see them: the test's own check must."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from subjects.fused_add import FUSED_ADD
from subjects.gemm import GEMM
from subjects.kv_cache import KV_CACHE
from subjects.quant import QUANT, QUANT_PAIR
from subjects.rmsnorm import RMSNORM, RMSNORM_NAN_ALLOWED
from subjects.silu import SILU

from cheats.adversary import CHECK, RAISED, Adversary, each

if TYPE_CHECKING:
    from collections.abc import Callable

    from subjects.subject import Kernel, Subject


def spoilt(
    how: Callable[[torch.Tensor], object], *, output: int = 0
) -> Callable[[Subject], Kernel]:
    """Right, and then one of its outputs changed in place by ``how``."""

    def make(subject):
        def kernel(*args):
            data = subject.right(*args)
            how(subject.outputs(args, data)[output])
            return data

        return kernel

    return make


def made_of(how: Callable[[torch.Tensor], object]) -> Callable[[Subject], Kernel]:
    """Returns what ``how`` makes of the right result."""

    def make(subject):
        return lambda *args: how(subject.right(*args))

    return make


def nan_at(y, at=(5, 7)):
    y[at] = float("nan")


def all_nan(y):
    y.fill_(float("nan"))


def one_per_cent_wild(y):
    y.view(-1)[::100] = 1e4


def three_per_cent_zero(y):
    y.view(-1)[::33] = 0


def one_wild(y):
    y[3, 5] = 1e30


def one_infinite(y):
    y[3, 5] = float("inf")


def a_row_negated(y):
    y[7].neg_()


def rows_swapped(y):
    y[[2, 3]] = y[[3, 2]]


def shifted(y):
    y.copy_(y.roll(1))


def doubled(y):
    y.mul_(2)


def zeroed(y):
    y.zero_()


def last_column_zero(y):
    y[:, -1] = 0


def first_element(y):
    y.view(-1)[0] = 3 * y.view(-1)[0].abs() + 1


def one_row_at_another_scale(scales):
    scales[4] = scales[5] * 1.5


def off_by_one(q):
    q.copy_(q.clamp(-126, 126) + 1)


MAIN = (RMSNORM, SILU, FUSED_ADD)

ADVERSARIES = [
    *each("NaN everywhere", spoilt(all_nan), (RMSNORM_NAN_ALLOWED, SILU), CHECK),
    *each("one NaN", spoilt(nan_at), (RMSNORM_NAN_ALLOWED, *MAIN), CHECK),
    *each("one per cent wild", spoilt(one_per_cent_wild), MAIN, CHECK),
    *each("three per cent zero", spoilt(three_per_cent_zero), (GEMM, SILU), CHECK),
    *each("one element 1e30", spoilt(one_wild), MAIN, CHECK),
    *each("one element infinite", spoilt(one_infinite), MAIN, CHECK),
    *each("one row negated", spoilt(a_row_negated), MAIN, CHECK),
    *each("two rows swapped", spoilt(rows_swapped), (GEMM, FUSED_ADD, KV_CACHE), CHECK),
    *each("shifted by one", spoilt(shifted), (*MAIN, KV_CACHE), CHECK),
    *each("twice too large", spoilt(doubled), MAIN, CHECK),
    *each("zeros", spoilt(zeroed), (*MAIN, QUANT), CHECK),
    *each("the last column zero", spoilt(last_column_zero), MAIN, CHECK),
    *each("only the first element wrong", spoilt(first_element), MAIN, CHECK),
    *each("one row at another scale", spoilt(one_row_at_another_scale, output=1), (QUANT,), CHECK),
    *each("every code off by one", spoilt(off_by_one), (QUANT,), CHECK),
    *each("one per cent wild", spoilt(one_per_cent_wild), MAIN, CHECK, mode="run"),
    *each("float64", made_of(torch.Tensor.double), (RMSNORM, GEMM), CHECK),
    *each("float16", made_of(torch.Tensor.half), (RMSNORM,), CHECK),
    *each("one column for all", made_of(lambda y: y[:, :1]), (RMSNORM,), CHECK),
    *each("one row for all", made_of(lambda y: y[:1].expand(y.shape)), (RMSNORM, GEMM), CHECK),
    *each("one more axis", made_of(lambda y: y[None]), (RMSNORM,), CHECK),
    *each("a scalar", made_of(torch.Tensor.mean), (RMSNORM,), CHECK),
    *each("nothing", made_of(lambda y: y[:0]), (RMSNORM,), CHECK),
    *each("transposed", made_of(lambda y: y.t()), (GEMM,), CHECK),
    *each("sparse", made_of(torch.Tensor.to_sparse), (RMSNORM,), RAISED, "plain tensors"),
    *each("without memory", made_of(lambda y: y.to("meta")), (RMSNORM,), RAISED, "plain tensors"),
    *each("None", made_of(lambda y: None), (RMSNORM,), RAISED),
    *each("a list of numbers", made_of(torch.Tensor.tolist), (RMSNORM,), RAISED, "plain tensors"),
    Adversary("the pair swapped", made_of(lambda pair: pair[::-1]), QUANT_PAIR, (CHECK,)),
]
