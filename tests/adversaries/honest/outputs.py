"""Results of every form that an operator may have."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import torch

from honest.record import ITERS, Honest, M, N, always, plain
from optest.test_common import benchmark, checkAllclose, run_perftest

Moments = namedtuple("Moments", "mean var")  # noqa: PYI024 - the older form is met as often


@dataclass(frozen=True)
class Norm:
    """A result as a dataclass."""

    scaled: torch.Tensor
    scale: torch.Tensor


def moments(x):
    return Moments(x.mean(-1), x.var(-1))


def normed(x):
    scale = x.norm(dim=-1, keepdim=True)
    return Norm(x / scale, scale)


def run_dataclass(watch):
    @benchmark()
    def test_dataclass():
        x = torch.randn(M, N)
        want = normed(x)
        got, us = run_perftest(watch(normed), x, num_iters=ITERS)
        checkAllclose(want.scale, got.scale)
        return {"us": us, "err": checkAllclose(want.scaled, got.scaled)}

    return test_dataclass()


def run_scalar(watch):
    """A Python float: nothing to poison, nothing to keep."""

    @benchmark()
    def test_scalar():
        x = torch.randn(M, N)
        want = x.double().sum()
        got, us = run_perftest(watch(lambda x: x.double().sum().item()), x, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, torch.tensor(got, dtype=torch.float64))}

    return test_scalar()


def run_out_returned(watch):
    """The buffer that it was given is what it returns."""

    @benchmark()
    def test_out_returned():
        x, y = torch.randn(M, N), torch.empty(M, N)
        want = x.double().exp().float()
        got, us = run_perftest(watch(lambda x, y: torch.exp(x, out=y)), x, y, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, got)}

    return test_out_returned()


def run_out_part_returned(watch):
    """A view of the buffer that it was given: the part with something in it."""

    @benchmark()
    def test_out_part_returned():
        x, y = torch.randn(M, N), torch.zeros(2 * M, N)
        want = x.double().exp().float()

        def kernel(x, y):
            torch.exp(x, out=y[:M])
            return y[:M]

        got, us = run_perftest(watch(kernel), x, y, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, got)}

    return test_out_part_returned()


def run_none(watch):
    @benchmark()
    def test_none():
        x, y = torch.randn(M, N), torch.empty(M, N)
        want = x.double().exp().float()

        def kernel(x, y):
            y.copy_(x.exp())

        _, us = run_perftest(watch(kernel), x, y, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, y)}

    return test_none()


def run_numpy(watch):
    """A NumPy array, from NumPy's memory."""

    @benchmark()
    def test_numpy():
        x = torch.randn(M, N)
        want = x.double().exp().float()
        got, us = run_perftest(watch(lambda x: np.exp(x.numpy())), x, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, torch.from_numpy(got))}

    return test_numpy()


def run_buffer_in_numpy(watch):
    """An output buffer whose memory is NumPy's."""

    @benchmark()
    def test_buffer_in_numpy():
        x, y = torch.randn(M, N), np.zeros((M, N), dtype=np.float32)
        want = x.double().exp().float()
        _, us = run_perftest(watch(lambda x: np.exp(x.numpy(), out=y)), x, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, torch.from_numpy(y))}

    return test_buffer_in_numpy()


def run_minus_ones(watch):
    """Padding of -1, every bit of which is what poison is made of."""

    @benchmark()
    def test_minus_ones():
        ids = torch.randint(0, 8, (M, N))
        want = torch.where(ids < 4, ids, -1)
        got, us = run_perftest(
            watch(lambda ids: ids.masked_fill(ids >= 4, -1)), ids, num_iters=ITERS
        )
        return {"us": us, "err": checkAllclose(want, got, rtol=0, atol=0, tol_err_ratio=0)}

    return test_minus_ones()


def run_nan(watch):
    """NaN where there is no answer, and the test says so."""

    @benchmark()
    def test_nan():
        x = torch.randn(M, N)
        want = x.double().log().float()
        got, us = run_perftest(watch(torch.log), x, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, got, equal_nan=True)}

    return test_nan()


def conjugated(x):
    return torch.complex(x, x + 1).conj()


def twice(x):
    y = x.exp()
    return y, y.view(-1)


def integers():
    return (torch.randint(0, 16, (M * N,)),)


HONEST = [
    Honest("a transposed view of fresh memory", plain(
        always(lambda x: torch.exp(x.t()).contiguous().t()), lambda x: x.double().exp().float())),
    Honest("every second row of a workspace", plain(
        always(lambda x: torch.cat((x, x), 1).view(-1, x.shape[1])[::2].exp()),
        lambda x: x.double().exp().float())),
    Honest("an expanded scale", plain(
        always(lambda x: (x.exp(), x.amax().expand(x.shape))),
        lambda x: (x.double().exp().float(), x.amax().expand(x.shape).clone()))),
    Honest("a tuple", plain(always(lambda x: (x.exp(), x.sin())), lambda x: (x.exp(), x.sin()))),
    Honest("a named tuple", plain(always(moments), lambda x: (x.mean(-1), x.var(-1)))),
    Honest("a dict", plain(
        always(lambda x: {"a": x.exp(), "b": [x.sin(), x.cos()]}),
        lambda x: {"a": x.exp(), "b": [x.sin(), x.cos()]})),
    Honest("torch's own named result", plain(
        always(lambda x: torch.sort(x, dim=-1)), lambda x: tuple(torch.sort(x, dim=-1)))),
    Honest("one tensor twice", plain(
        always(twice),
        lambda x: (x.exp(), x.exp().view(-1)))),
    Honest("a dataclass", run_dataclass),
    Honest("a Python float", run_scalar),
    Honest("the buffer itself", run_out_returned),
    Honest("part of the buffer", run_out_part_returned),
    Honest("None", run_none),
    Honest("a NumPy array", run_numpy),
    Honest("a buffer of NumPy's", run_buffer_in_numpy),
    Honest("zero-dimensional", plain(always(torch.sum), lambda x: x.double().sum().float())),
    Honest("empty", plain(
        always(torch.exp), torch.exp, lambda: (torch.randn(0, N),))),
    Honest("a histogram", plain(
        always(lambda ids: torch.bincount(ids, minlength=16)),
        lambda ids: torch.nn.functional.one_hot(ids, 16).sum(0), integers)),
    Honest("indices of a sort", plain(
        always(lambda x: x.argsort(dim=-1, stable=True)),
        lambda x: x.sort(dim=-1, stable=True)[1])),
    Honest("indices padded with -1", run_minus_ones),
    Honest("booleans", plain(always(lambda x: x > 0), lambda x: x.gt(0))),
    Honest("fp8", plain(
        always(lambda x: x.to(torch.float8_e4m3fn)), lambda x: x.to(torch.float8_e4m3fn))),
    Honest("complex", plain(always(torch.fft.rfft), lambda x: torch.fft.rfft(x.double()).cfloat())),
    Honest("lazily conjugated", plain(
        always(conjugated), lambda x: torch.complex(x, -(x + 1)))),
    Honest("NaN where it belongs", run_nan),
    Honest("float64", plain(
        always(torch.exp), torch.exp, lambda: (torch.randn(M, N, dtype=torch.float64),))),
]  # fmt: skip
