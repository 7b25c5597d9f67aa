"""run_perftest and perftest at the seam: what is called, how often, and what comes back."""

from __future__ import annotations

import math

import pytest
import torch

from optest.cases.session import Session, using
from optest.test_common import benchmark, perftest, run_perftest


@pytest.fixture
def run():
    with using(Session(mode="run", judged_by="")) as session:
        yield session


def test_check_mode_calls_once_and_times_nothing(check):
    calls = []
    data, us = run_perftest(lambda: calls.append(1) or torch.ones(3))
    assert len(calls) == 1
    assert math.isnan(us)
    assert torch.equal(data, torch.ones(3))


def test_template_arithmetic_on_an_untimed_result_is_nan(check):
    _, us = run_perftest(torch.neg, torch.ones(3))
    assert math.isnan(2 * 3 / us / 1e6)


def test_in_place_kernel_ends_as_after_one_call(run):
    x = torch.zeros(16)
    data, us = run_perftest(x.add_, 1.0, num_iters=101)
    assert us > 0
    assert torch.equal(x, torch.ones(16))
    assert data is x


def test_in_place_through_a_closure_ends_as_after_one_call(run):
    x = torch.arange(16.0)
    run_perftest(lambda: x.mul_(2), num_iters=20)
    assert torch.equal(x, 2 * torch.arange(16.0))


def test_an_argument_of_the_kernel_with_our_name_is_reachable(run):
    def kernel(x, num_iters):
        return x * num_iters

    data, _ = run_perftest(kernel, torch.ones(4), num_iters=10, fn_kwargs={"num_iters": 3})
    assert torch.equal(data, torch.full((4,), 3.0))


@pytest.mark.parametrize("decorate", [perftest(), perftest(12), perftest(num_iters=12)])
def test_perftest_decorates(run, decorate):
    @decorate
    def double(x):
        """Twice x."""
        return x * 2

    data, us = double(torch.ones(4))
    assert torch.equal(data, torch.full((4,), 2.0))
    assert us > 0
    assert (double.__name__, double.__doc__) == ("double", "Twice x.")


def test_perftest_passes_keywords_that_are_also_ours(run):
    @perftest(10)
    def scaled(x, *, num_iters):
        return x * num_iters

    data, _ = scaled(torch.ones(2), num_iters=5)
    assert torch.equal(data, torch.full((2,), 5.0))


def said(caplog, words):
    return any(words in message for message in caplog.messages)


@pytest.fixture
def heard(monkeypatch):
    """What ``once`` says, without what earlier tests made it say already."""
    from optest.cases import guarding as room

    messages = []
    monkeypatch.setattr(room, "once", messages.append)
    return messages


def test_constant_inputs_are_warned_about(run, heard):
    @benchmark()
    def test_op(m):
        run_perftest(torch.neg, torch.ones(64), num_iters=10)

    test_op(1)
    assert "every float input holds one value throughout" in heard[0]


def test_random_inputs_and_constant_outputs_are_not_warned_about(run, heard):
    @benchmark()
    def test_op(m):
        x, w, out = torch.randn(64), torch.ones(64), torch.zeros(64)
        run_perftest(lambda: torch.mul(x, w, out=out), num_iters=10)

    test_op(1)
    assert heard == []


def test_one_seed_for_all_cases_is_warned_about(run, heard):
    @benchmark()
    def test_op(m):
        torch.manual_seed(0)
        x = torch.randn(64)
        run_perftest(lambda: x.neg(), num_iters=10)

    test_op(1)
    assert heard == []
    test_op(2)
    assert "seeds every case with 0" in heard[0]
