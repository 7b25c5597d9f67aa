"""A case is run a second time on new inputs, and leaves everything else as one run would."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import random
import sys

import numpy as np
import pytest
import torch

import optest
from optest import log, native
from optest.cases import second_pass
from optest.log import logger
from optest.test_common import assertAllclose, benchmark, checkAllclose, run_perftest

LEVELS = ["off", "cheap", "full"]


@pytest.fixture
def full(make_session):
    recorded = make_session("check")
    recorded.session.guards = "full"
    return recorded


def guards_in(event):
    return [finding["guard"] for finding in event["findings"]]


def candidate(x):
    return x * 2


def passes_of(body, **declared):
    """Run ``body(nth)`` as a case and return what it gave in each pass."""
    gave = []

    @benchmark(**declared)
    def test_op(m):
        gave.append(body(len(gave)))
        return {"us": 1.0}

    test_op(1)
    return gave


def checked(x, out, **options):
    return checkAllclose(x * 2, out, msg="op", **options)


# --- what is new in it -----------------------------------------------------------------


def test_inputs_are_new_and_seeds_are_told_as_before(full):
    """A candidate that asks for the seed, or draws what it was seeded with, knows the inputs."""

    def body(_):
        drawn = torch.randn(64), np.random.rand(8).tolist(), [random.random() for _ in range(8)]
        seeds = torch.initial_seed(), torch.randint(0, 1 << 40, (40,))[8:12].tolist()
        checked(drawn[0], run_perftest(candidate, drawn[0])[0])
        return drawn, seeds[0], seeds[1]

    (first, seed, ints), (second, again, others) = passes_of(body)
    assert full.finished()[0]["status"] == "passed"
    assert seed == again == full.events[0]["seed"]
    assert not torch.equal(first[0], second[0])
    assert torch.equal(first[0][:2], second[0][:2])
    assert set(first[1]).isdisjoint(second[1])
    assert set(first[2]).isdisjoint(second[2])
    assert ints != others


def test_it_is_the_same_each_time(make_session):
    """What failed there must fail again when the case is run alone."""
    drawn = []
    for _ in range(2):
        make_session("check").session.guards = "full"

        def body(_):
            x = torch.randn(64)
            checked(x, run_perftest(candidate, x)[0])
            return x.tolist(), np.random.rand(), random.random()

        drawn.append(passes_of(body))
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("guards", "measured", "fails", "passes"),
    [
        ("off", True, False, 1),
        ("cheap", True, False, 1),
        ("full", True, False, 2),
        ("full", False, False, 1),
        ("full", True, True, 1),
    ],
)
def test_when_there_is_a_second_pass(make_session, guards, measured, fails, passes):
    """Nothing is learnt from one of a case that measures nothing, or has failed already."""
    make_session("check").session.guards = guards

    def body(_):
        x = torch.randn(64)
        out = run_perftest(candidate, x)[0] if measured else candidate(x)
        checked(x, out + 1 if fails else out)

    assert len(passes_of(body)) == passes


def test_in_run_mode_nothing_is_timed_twice(make_session):
    recorded = make_session("run")
    recorded.session.guards = "full"

    def body(_):
        x = torch.randn(64)
        out, us = run_perftest(candidate, x, num_iters=10)
        checked(x, out)
        return float(us)

    timed, untimed = passes_of(body)
    assert timed > 0
    assert untimed != untimed  # noqa: PLR0124 - NaN
    assert recorded.finished()[0]["status"] == "passed"


@pytest.mark.skipif(not native.available(), reason=str(native.why_not()))
def test_buffers_hold_poison_there_too(full):
    """What the first pass wrote would lie in the memory that the second one is given."""

    def body(_):
        x, out = torch.randn(4096), torch.empty(4096)
        blank = bool((out == out[0]).all())
        checked(x, run_perftest(lambda x, out: torch.mul(x, 2, out=out), x, out)[0])
        return blank

    assert passes_of(body) == [True, True]


# --- what it finds ---------------------------------------------------------------------


def by(key):
    def make():
        kept = {}
        return lambda x: kept.setdefault(key(x), x * 2).clone()

    return make


def after(calls):
    def make():
        count = itertools.count(1)
        return lambda x: x * 2 if next(count) <= calls else torch.zeros_like(x)

    return make


# Each passes the first pass, control calls on inputs that were scaled and shifted included.
WRONG = {
    "by the corners": by(lambda x: (*x[:2].tolist(), *x[-2:].tolist())),
    "by the seed and a corner": by(lambda x: (torch.initial_seed(), float(x[0]))),
    "does nothing in the end": after(6),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_the_tests_own_check_fails_there(full, make):
    kernel = make()

    def body(_):
        x = torch.randn(64)
        checked(x, run_perftest(kernel, x)[0])

    assert len(passes_of(body)) == 2
    (event,) = full.finished()
    assert event["status"] == "failed"
    (finding,) = [each for each in event["findings"] if each["guard"] == "fresh inputs"]
    assert finding["evidence"].startswith("op: ")
    assert not finding["declarable"]
    assert f"fresh inputs: {finding['evidence']}; {finding['meaning']}" in event["reason"]


@pytest.mark.parametrize("check", [checkAllclose, assertAllclose])
def test_verdicts_are_those_of_the_first_pass(full, check):
    """A row with each check twice would be counted twice, the silent one as well."""

    def body(nth):
        x = torch.randn(64)
        out, _ = run_perftest(candidate, x)
        check(x * 2, out + nth, msg="first")
        check(x * 2, out, msg="second")

    passes_of(body)
    (event,) = full.finished()
    assert [each["verdict"]["msg"] for each in event["checks"]] == ["first", "second"]
    assert [each["verdict"]["status"] for each in event["checks"]] == ["pass", "pass"]
    assert guards_in(event) == ["fresh inputs"]
    assert event["findings"][0]["evidence"].startswith("first: ")
    assert full.session.totals["failed"] == 1
    assert [failure.status for failure in full.session.failures] == ["failed"]
    assert [each["event"] for each in full.events] == ["started", "finished"]


RAISES = {
    "in the test": (lambda: 1 / 0, "the case raised ZeroDivisionError"),
    "an assertion of its own": (lambda: _assert(), "AssertionError"),
    "in a candidate": (lambda: run_perftest(lambda: 1 / 0), "raised ZeroDivisionError"),
}


def _assert():
    raise AssertionError("not close")


@pytest.mark.parametrize(("act", "words"), RAISES.values(), ids=RAISES)
def test_an_exception_there_is_a_finding_told_once(full, act, words):
    """Raised on, it would make a row an error whose first pass was right, and hide the why."""

    def body(nth):
        x = torch.randn(64)
        checked(x, run_perftest(candidate, x)[0])
        if nth:
            act()

    passes_of(body)
    (event,) = full.finished()
    assert event["status"] == "failed"
    assert guards_in(event) == ["fresh inputs"]
    assert words in event["findings"][0]["evidence"]


def test_an_exception_after_a_failed_check_is_not_told_beside_it(full):
    def body(nth):
        x = torch.randn(64)
        checked(x, run_perftest(candidate, x)[0] + nth)
        if nth:
            raise ValueError("of the failed check")

    passes_of(body)
    (finding,) = full.finished()[0]["findings"]
    assert "ValueError" not in finding["evidence"]


def test_one_reason_is_told_once_and_two_are_told_each(full):
    def body(nth):
        x = torch.randn(64)
        out, _ = run_perftest(candidate, x)
        for name in ("one", "one", "two"):
            checkAllclose(torch.ones(64), torch.full((64,), 1.0 + nth), msg=name)
        return out

    passes_of(body)
    found = full.finished()[0]["findings"]
    assert [each["evidence"].split(":")[0] for each in found] == ["one", "two"]


def test_what_a_guard_finds_there_keeps_its_own_name(full):
    """A finding of the second pass is a failure there; it is no failed check as well."""

    class Lazy(torch.Tensor):
        pass

    def body(nth):
        x = torch.randn(64)
        kernel = (lambda x: (x * 2).as_subclass(Lazy)) if nth else candidate
        out, _ = run_perftest(kernel, x)
        checked(x, out.as_subclass(torch.Tensor))

    passes_of(body)
    assert guards_in(full.finished()[0]) == ["plain tensors"]


def test_a_skip_inside_it_is_no_finding(full):
    """Data of the second pass may be such that the test gives up; that is no fault."""

    def body(nth):
        x = torch.randn(64)
        checked(x, run_perftest(candidate, x)[0])
        if nth:
            pytest.skip("on this data")

    passes_of(body)
    (event,) = full.finished()
    assert event["findings"] == []
    assert event["status"] == "passed"
    assert event["unguarded"] == ["fresh inputs: the test skipped its second pass: on this data"]
    assert full.session.case is None
    assert full.session.failures == []


def test_what_was_found_before_a_skip_is_told(full):
    """A test that gives up on its second candidate would take the first one's failure with it."""

    def body(nth):
        x = torch.randn(64)
        checked(x, run_perftest(candidate, x)[0] + nth)
        if nth:
            pytest.skip("on this data")

    passes_of(body)
    (event,) = full.finished()
    assert event["status"] == "failed"
    assert guards_in(event) == ["fresh inputs"]


def test_a_failure_that_is_pytests_own_is_one_there_too(full):
    def body(nth):
        x = torch.randn(64)
        checked(x, run_perftest(candidate, x)[0])
        if nth:
            pytest.fail("on this data")

    passes_of(body)
    (event,) = full.finished()
    assert "on this data" in event["reason"]
    assert guards_in(event) == ["fresh inputs"]


def test_what_a_test_prints_is_printed_once(full, capsys):
    def body(_nth):
        x = torch.randn(64)
        checked(x, run_perftest(candidate, x)[0])
        sys.stdout.write("a line\n")

    passes_of(body)
    assert capsys.readouterr().out.count("a line") == 1


@pytest.mark.parametrize(("fails_in", "failed"), [((0, 1), False), ((0,), True)])
def test_expect_failure_holds_in_both(full, fails_in, failed):
    def body(nth):
        x = torch.randn(64)
        out, _ = run_perftest(candidate, x)
        with optest.expect_failure():
            checked(x, out + (nth in fails_in))
        return out

    passes_of(body)
    (event,) = full.finished()
    assert (event["status"] == "failed") is failed
    assert guards_in(event) == (["fresh inputs"] if failed else [])


# --- what it does not change -----------------------------------------------------------


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("level", [logging.DEBUG, logging.ERROR])
def test_it_is_silent_and_the_level_is_given_back(full, caplog, level, raises):
    before = logger.level
    logger.setLevel(level)
    try:

        def body(nth):
            x = torch.randn(64)
            out = run_perftest(candidate, x)[0]
            checkAllclose(torch.ones(8), torch.full((8,), 1.0 + nth), msg="marked")
            logger.error("pass %d", nth)
            if nth and raises:
                raise ValueError
            return out

        passes_of(body)
        assert logger.level == level
    finally:
        logger.setLevel(before)
    assert "pass 0" in caplog.messages
    assert "pass 1" not in caplog.messages
    failing = [each.message for each in caplog.records if each.levelno >= logging.ERROR]
    assert sum("fresh inputs: marked" in each for each in failing) == 1
    assert not any(each.startswith("marked") for each in failing)


def state_of_generators():
    return (
        torch.get_rng_state().tolist(),
        torch.initial_seed(),
        np.random.get_state()[1].tolist(),
        np.random.get_state()[2],
        random.getstate(),
    )


KERNELS = {
    "draws nothing": (candidate, {}),
    "draws": (lambda x: x + torch.rand(64), {"deterministic": False}),
    "draws from all": (
        lambda x: x + torch.rand(64) + random.random() + np.random.rand(),
        {"deterministic": False},
    ),
}


@pytest.mark.parametrize(("kernel", "declared"), KERNELS.values(), ids=KERNELS)
def test_what_is_drawn_after_a_candidate_is_the_same_under_any_guards(
    make_session, kernel, declared
):
    """Two candidates of a case would get other inputs as soon as guards are switched on."""
    seen = []
    for level in LEVELS:
        make_session("check").session.guards = level

        def body(_):
            x = torch.randn(64)
            run_perftest(kernel, x)
            drawn = torch.randn(64).tolist(), np.random.rand(), random.random()
            checkAllclose(x, x, msg="op")
            return drawn

        seen.append(passes_of(body, **declared)[0])
    assert seen[0] == seen[1] == seen[2]


def test_what_is_drawn_after_timing_is_the_same_under_any_guards(make_session):
    seen = []
    for level in LEVELS:
        make_session("run").session.guards = level

        def body(_):
            x = torch.randn(64)
            run_perftest(candidate, x, num_iters=10)
            checkAllclose(x, x, msg="op")
            return torch.randn(64).tolist(), np.random.rand(), random.random()

        seen.append(passes_of(body)[0])
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize(
    "act", [None, pytest.skip, ZeroDivisionError], ids=["none", "skip", "error"]
)
def test_after_the_case_generators_are_the_same_under_any_guards(make_session, act):
    """``main()`` may draw shapes between cases: a sweep would be another under full guards."""
    seen = []
    for level in LEVELS:
        make_session("check").session.guards = level

        def body(nth):
            x = torch.randn(64)
            checked(x, run_perftest(candidate, x)[0])
            torch.rand(3), np.random.rand(3), random.random()
            if nth and act is pytest.skip:
                pytest.skip("on this data")
            if nth and act:
                raise act

        with contextlib.suppress(pytest.skip.Exception):
            passes_of(body)
        seen.append(state_of_generators())
    assert seen[0] == seen[1] == seen[2]


def test_after_the_case_the_process_is_as_it_was(make_session, caplog):
    for level in LEVELS:
        make_session("check").session.guards = level
        before = (torch.get_default_dtype(), torch.is_grad_enabled(), os.environ.get("A_SWITCH"))

        def body(nth):
            torch.set_default_dtype(torch.float64 if nth else torch.float32)
            torch.set_grad_enabled(not nth)
            if nth:
                os.environ["A_SWITCH"] = "1"
            x = torch.randn(64)
            checked(x, run_perftest(candidate, x)[0])

        passes_of(body)
        after = (torch.get_default_dtype(), torch.is_grad_enabled(), os.environ.get("A_SWITCH"))
        assert after == before
        assert torch.overrides._get_current_function_mode() is None


def test_the_row_is_that_of_the_first_pass(full):
    numbers = itertools.count()

    @benchmark()
    def test_op(m):
        x = torch.randn(64)
        out, _ = run_perftest(candidate, x)
        return {"nth": next(numbers), "err": checked(x, out)}

    assert test_op(1)["nth"] == 0
    assert next(numbers) == 2
    assert full.finished()[0]["row"]["nth"] == 0


# --- what it cannot see ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "unguarded"),
    [
        (lambda: torch.randn(64), False),
        (lambda: torch.arange(64.0), True),
        (lambda: torch.zeros(64), True),
        (lambda: torch.randn(64, generator=torch.Generator().manual_seed(1)), True),
        (lambda: torch.from_numpy(np.random.rand(64)), False),
        (lambda: torch.from_numpy(np.random.default_rng(1).random(64)), True),
        (lambda: torch.randint(0, 99, (64,)), False),
        (lambda: torch.randn(64).to(torch.bfloat16), False),
    ],
    ids=["random", "fixed", "blank", "own generator", "numpy", "numpy's own", "integers", "bf16"],
)
def test_inputs_that_are_not_new_are_said_to_be_unguarded(
    full, monkeypatch, caplog, make, unguarded
):
    """Such a case passes without having been looked at; it must not seem to have been."""
    monkeypatch.setattr(log, "_said", set())

    def body(_):
        x = make()
        checked(x, run_perftest(candidate, x)[0])

    passes_of(body)
    (event,) = full.finished()
    said = [note for note in event["unguarded"] if note.startswith("fresh inputs")]
    assert len(said) == unguarded
    told = [each for each in caplog.messages if "unguarded: fresh inputs" in each]
    assert len(told) == unguarded
    assert event["status"] == "passed"


def test_one_candidate_with_new_inputs_is_enough(full):
    def body(_):
        for x in (torch.arange(64.0), torch.randn(64)):
            checked(x, run_perftest(candidate, x)[0])

    passes_of(body)
    assert full.finished()[0]["unguarded"] == []


def test_a_print_is_of_the_bits():
    x = torch.randn(64)
    same = second_pass.Print.of([x, x.int()])
    assert same == second_pass.Print.of([x.clone(), x.int()])
    y = x.clone()
    y[63] = -y[63]
    assert same != second_pass.Print.of([y, x.int()])
    assert same != second_pass.Print.of([x, x.int() + 1])
    assert same != second_pass.Print.of([x])
    lazy = torch.ones(3, dtype=torch.complex64).conj()
    assert second_pass.Print.of([x, lazy]) == second_pass.Print.of([x])
