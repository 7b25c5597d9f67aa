"""Tests that make their inputs in every way there is: a second pass must not trip over any."""

from __future__ import annotations

import itertools
import random

import numpy as np
import torch

from honest.record import ITERS, Honest, M, N, always, plain
from optest.test_common import benchmark, checkAllclose, perftest, run_perftest


def exp(x):
    return x.double().exp().float()


def of_numpy():
    return (torch.from_numpy(np.random.randn(M, N).astype(np.float32)),)


def of_numpy_generator():
    return (torch.from_numpy(np.random.default_rng(3).standard_normal((M, N), np.float32)),)


def of_random():
    return (torch.tensor([[random.gauss(0, 1) for _ in range(N)] for _ in range(M)]),)


def of_own_generator():
    return (torch.randn(M, N, generator=torch.Generator().manual_seed(11)),)


def of_own_seed():
    torch.manual_seed(5)
    return (torch.randn(M, N),)


def of_no_chance():
    return (torch.arange(M * N).view(M, N) / (M * N),)


def filled_in_place():
    return (torch.empty(M, N).uniform_(-1, 1),)


def of_init():
    return (torch.nn.init.xavier_normal_(torch.empty(M, N)),)


def of_distributions():
    return (torch.distributions.Normal(0.0, 1.0).sample((M, N)),)


def positive():
    return (torch.rand(M, N) + 0.5,)


def rows_that_sum_to_one():
    return (torch.randn(M, N).softmax(-1),)


def positive_definite():
    a = torch.randn(N, N, dtype=torch.float64)
    return (a @ a.t() + N * torch.eye(N, dtype=torch.float64),)


def sequences():
    """Rows of a ragged batch: values, and where each sequence starts."""
    lengths = torch.randint(1, 9, (12,))
    starts = torch.cat((torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)))
    return torch.randn(int(starts[-1]), N), starts


def boundaries():
    return torch.randn(64).sort().values, torch.randn(M, N)


def refuses_negatives(x):
    """An operator's own check of its input, which the inputs of a guard may not pass."""
    if bool((x < 0).any()):
        raise ValueError("expected no negative value")
    return x.sqrt()


def newton(x):
    """Iterates until it has converged."""
    y = x.clone()
    for _ in range(50):
        step = (y * y - x) / (2 * y)
        y = y - step
        if float(step.abs().max()) < 1e-6:
            break
    return y


def segments(values, starts):
    return torch.stack([values[a:b].sum(0) for a, b in itertools.pairwise(starts)])


def segments_by_index(values, starts):
    at = torch.repeat_interleave(torch.arange(len(starts) - 1), starts.diff())
    return torch.zeros(len(starts) - 1, N).index_add_(0, at, values)


def drawn_twice(watch):
    """Two tensors of one seed, which the test takes for the same."""

    @benchmark()
    def test_drawn_twice():
        torch.manual_seed(9)
        x = torch.randn(M, N)
        torch.manual_seed(9)
        want = exp(torch.randn(M, N))
        got, us = run_perftest(watch(torch.exp), x, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, got)}

    return test_drawn_twice()


def keywords(watch):
    @benchmark()
    def test_keywords():
        x = torch.randn(M, N)
        want = exp(0.5 * x)

        def kernel(x, *, scale, num_iters):
            return torch.exp(scale * x) if num_iters else x

        watched = watch(lambda x, scale, n: kernel(x, scale=scale, num_iters=n))
        got, us = run_perftest(
            watched, x, num_iters=ITERS, fn_kwargs={"n": 3}, scale=torch.tensor(0.5)
        )
        return {"us": us, "err": checkAllclose(want, got)}

    return test_keywords()


def decorated(watch):
    """The decorator in place of the call."""

    @benchmark()
    def test_decorated():
        x = torch.randn(M, N)
        got, us = perftest(num_iters=ITERS)(watch(torch.exp))(x)
        return {"us": us, "err": checkAllclose(exp(x), got)}

    return test_decorated()


def inputs_for_each(watch):
    """Each candidate gets inputs of its own, drawn between them."""

    @benchmark()
    def test_inputs_for_each():
        ret = {}
        for name in ("a", "b"):
            x = torch.randn(M, N)
            got, ret[f"{name} us"] = run_perftest(watch(torch.exp), x, num_iters=ITERS)
            ret[f"{name} err"] = checkAllclose(exp(x), got)
        return ret

    return test_inputs_for_each()


def several_sizes(watch):
    """One case calls a kernel on inputs of several sizes, and checks each."""

    @benchmark()
    def test_several_sizes():
        errs = []
        for m in (1, 2, 17):
            x = torch.randn(m, N)
            got, _ = run_perftest(watch(torch.exp), x, num_iters=ITERS)
            errs.append(checkAllclose(exp(x), got))
        return {"err": max(errs)}

    return test_several_sizes()


HONEST = [
    Honest("inputs of NumPy", plain(always(torch.exp), exp, of_numpy)),
    Honest("inputs of a generator of NumPy", plain(always(torch.exp), exp, of_numpy_generator)),
    Honest("inputs of random", plain(always(torch.exp), exp, of_random)),
    Honest("inputs of a generator of torch", plain(always(torch.exp), exp, of_own_generator)),
    Honest("inputs of the test's own seed", plain(always(torch.exp), exp, of_own_seed)),
    Honest("inputs without chance", plain(always(torch.exp), exp, of_no_chance)),
    Honest("inputs filled in place", plain(always(torch.exp), exp, filled_in_place)),
    Honest("inputs of torch.nn.init", plain(always(torch.exp), exp, of_init)),
    Honest("inputs of torch.distributions", plain(always(torch.exp), exp, of_distributions)),
    Honest("inputs drawn twice", drawn_twice),
    Honest("inputs for each candidate", inputs_for_each),
    Honest("inputs of several sizes", several_sizes),
    Honest("positive inputs alone", plain(
        always(refuses_negatives), lambda x: x.double().sqrt().float(), positive)),
    Honest("an iteration", plain(
        always(newton), lambda x: x.double().sqrt().float(), positive)),
    Honest("probabilities", plain(
        always(lambda p: -(p * p.log()).sum(-1)), lambda p: torch.special.entr(p).sum(-1),
        rows_that_sum_to_one)),
    Honest("a Cholesky factor", plain(
        always(torch.linalg.cholesky), torch.linalg.cholesky, positive_definite)),
    Honest("a ragged batch", plain(always(segments_by_index), segments, sequences)),
    Honest("a search in sorted values", plain(
        always(torch.searchsorted), lambda b, x: (x[..., None] > b).sum(-1), boundaries)),
    Honest("keyword arguments", keywords),
    Honest("decorated", decorated),
]  # fmt: skip
