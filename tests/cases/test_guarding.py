"""The guards around a candidate at the seam: which look at which level, and who is told."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import time

import pytest
import torch

from optest import log, native
from optest.test_common import benchmark, checkAllclose, run_perftest

needs_compiler = pytest.mark.skipif(not native.available(), reason=str(native.why_not()))
MOST_CALLS = 12


class Case:
    """One case of a candidate, its event and the warnings that were given."""

    def __init__(self, make_session, monkeypatch, caplog):
        self._make, self._monkeypatch, self._caplog = make_session, monkeypatch, caplog

    def run(self, kernel, make, guards="full", mode="check", check=None, **declared):
        """``make`` gives the arguments by name; ``check`` compares, or nothing does."""
        recorded = self._make(mode)
        recorded.session.guards = guards
        self.session = recorded.session
        self._monkeypatch.setattr(log, "_said", set())
        self._caplog.clear()

        @benchmark(**declared)
        def test_op(m):
            given = make()
            x = given[0]  # noqa: F841 - a name that is declared
            data, us = run_perftest(kernel, *given, num_iters=10)
            if check is not None:
                check(data, *given)
            else:
                checkAllclose(torch.ones(1), torch.ones(1), msg="op")
            return {"us": us}

        test_op(1)
        (self.event,) = recorded.finished()
        return self.event

    @property
    def warnings(self):
        """Those that name the test."""
        return [each for each in self._caplog.messages if each.startswith("test_guarding.py::")]

    @property
    def guards(self):
        return [finding["guard"] for finding in self.event["findings"]]


@pytest.fixture(scope="module", autouse=True)
def _few_objects():
    """What pytest and torch hold is not walked through at each look for cycles."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def case(make_session, monkeypatch, caplog):
    return Case(make_session, monkeypatch, caplog)


def one():
    return (torch.randn(64),)


def two():
    return torch.randn(64), torch.randn(64)


def with_out():
    return torch.randn(64), torch.randn(64), torch.empty(64)


def half_written(x):
    out = torch.empty(64)
    out[:32] = x[:32] * 2
    return out


def half_written_out(x, y, out):
    out[:32] = x[:32] + y[:32]


# Each with what may be declared so that it is meant, and whether cheap guards see it at all.
DECLARABLE = {
    "inputs": (lambda x, y: x.add_(y), two, {"inout": ("x",)}, True),
    "alias": (lambda x: x[:32], one, {"aliases": ("x",)}, False),
    "alias of a result": (lambda x: x[:32], one, {"aliases": ("data",)}, False),
    "repeatability": (
        lambda x: x + next(COUNT),
        one,
        {"deterministic": False},
        False,
    ),
    "random state": (lambda x: x + torch.rand(1) * 0, one, {"deterministic": False}, False),
    "poison": (half_written, one, {"unwritten": ("data",)}, True),
    "poison of an output": (half_written_out, with_out, {"unwritten": ("out",)}, False),
}


def _count():
    number = 0
    while True:
        number += 1
        yield float(number)


COUNT = _count()


def guard_of(name):
    return name.split(" of ")[0]


@needs_compiler
@pytest.mark.parametrize("guards", ["cheap", "full"])
def test_a_large_output_is_poisoned_though_its_memory_waits_for_that(case, guards):
    def make():
        return torch.randn(1 << 24), torch.empty(1 << 24)

    def half_written(x, out):
        torch.mul(x[: 1 << 23], 2, out=out[: 1 << 23])

    def check(_, x, out):
        checkAllclose(x * 2, out, msg="op")

    event = case.run(half_written, make, guards, check=check)
    assert event["status"] == "failed"
    assert "8388608 of 16777216" in str(event)
    assert ("poison" in case.guards) is (guards == "full")


@needs_compiler
@pytest.mark.parametrize("mode", ["check", "run"])
@pytest.mark.parametrize("name", DECLARABLE)
def test_what_can_be_declared_fails_under_full_guards_unless_it_is(case, name, mode):
    kernel, make, declared, _ = DECLARABLE[name]
    event = case.run(kernel, make, mode=mode)
    assert event["status"] == "failed"
    assert case.guards == [guard_of(name)]
    assert event["findings"][0]["declarable"]
    assert case.run(kernel, make, mode=mode, **declared)["status"] == "passed", event["reason"]
    assert case.guards == []


@needs_compiler
@pytest.mark.parametrize("name", DECLARABLE)
def test_under_cheap_guards_it_is_a_warning_at_most_and_nothing_under_none(case, name):
    kernel, make, declared, seen = DECLARABLE[name]
    assert case.run(kernel, make, guards="cheap")["status"] == "passed"
    assert case.guards == []
    assert [
        words.startswith(f"test_guarding.py::test_op: {guard_of(name)}: ")
        for words in case.warnings
    ] == [True] * seen
    case.run(kernel, make, guards="cheap", **declared)
    assert case.warnings == []
    assert case.run(kernel, make, guards="off")["status"] == "passed"
    assert case.warnings == []


class Lazy(torch.Tensor):
    pass


def patches(monkeypatch):
    def kernel(x):
        monkeypatch.setattr(time, "monotonic_ns", lambda: 1)
        return x * 2

    return kernel


ALWAYS = {
    "plain tensors": (lambda x: (x * 2).as_subclass(Lazy), one),
    "patched names": (None, one),
    "inputs": (lambda x: x.set_(torch.zeros(64)).sum(), one),
}


@pytest.mark.parametrize("mode", ["check", "run"])
@pytest.mark.parametrize("guards", ["cheap", "full"])
@pytest.mark.parametrize("name", ALWAYS)
def test_what_is_never_meant_fails_under_cheap_guards_too(case, monkeypatch, name, guards, mode):
    kernel, make = ALWAYS[name]
    with monkeypatch.context() as patch:
        event = case.run(kernel or patches(patch), make, guards=guards, mode=mode)
    assert event["status"] == "failed"
    assert name in case.guards
    assert case.session.failures


@pytest.mark.parametrize("name", ["plain tensors", "patched names"])
def test_the_last_timed_call_is_looked_at_as_well(case, monkeypatch, name):
    """A candidate that counts its calls is honest in the first and lazy in the timed ones."""
    calls = []
    with monkeypatch.context() as patch:
        kernel = ALWAYS[name][0] or patches(patch)

        def later(x):
            calls.append(1)
            return kernel(x) if len(calls) > 4 else x * 2

        case.run(later, one, guards="cheap", mode="run")
    assert case.guards == [name]


@pytest.mark.parametrize("name", ALWAYS)
def test_without_guards_nothing_is_looked_at(case, monkeypatch, name):
    kernel, make = ALWAYS[name]
    with monkeypatch.context() as patch:
        assert case.run(kernel or patches(patch), make, guards="off")["status"] == "passed"


def seeds(x):
    torch.default_generator.manual_seed(3)
    return x * 2


def double(x):
    torch.set_default_dtype(torch.float64)
    return x * 2


def ref_double(x):
    return x * 2


KEPT: list[torch.Tensor] = []
FULL = {
    "random state": (seeds, {"deterministic": False}),
    "process state": (double, {}),
    "reference": (lambda x: ref_double(x), {}),
    "memory": (lambda x: KEPT.append(x.repeat(999)) or x * 2, {}),
    "memoised": (lambda x: MEMO.setdefault(x.data_ptr(), x * 2).clone(), {}),
}
MEMO: dict[int, torch.Tensor] = {}


@pytest.mark.parametrize("name", FULL)
def test_what_is_dear_to_see_fails_under_full_guards_only(case, name):
    MEMO.clear()
    kernel, declared = FULL[name]
    assert case.run(kernel, one, guards="full", **declared)["status"] == "failed"
    assert case.guards == [name]
    assert torch.get_default_dtype() == torch.float32
    KEPT.clear()
    MEMO.clear()
    assert case.run(kernel, one, guards="cheap", **declared)["status"] == "passed"


def test_a_change_of_the_process_is_back_before_the_candidate_is_called_again(case):
    seen = []

    def kernel(x):
        seen.append(os.environ.get("A_SWITCH"))
        if len(seen) == 1:
            os.environ["A_SWITCH"] = "1"
        return x * 2

    case.run(kernel, one)
    assert case.guards == ["process state"]
    assert set(seen) == {None}


# --- how often it is called --------------------------------------------------------------


def minus_one(x):
    return torch.full((64,), -1)  # what fresh memory holds: the first call leaves a doubt


CALLED = {
    "returns": (lambda x: x * 2, one),
    "returns two": (lambda x, y: (x + y, x - y), two),
    "in doubt": (minus_one, one),
    "out-parameter": (lambda x, y, out: torch.add(x, y, out=out), with_out),
    "writes": (lambda x, y, out: (torch.add(x, y, out=out), None)[1], with_out),
    "in place": (lambda x, y: (x.add_(y), None)[1], two),
    "adds to its output": (lambda x, y, out: out.zero_().add_(x).add_(y), with_out),
    "integers": (lambda x: x * 2, lambda: (torch.randint(0, 99, (64,)),)),
    "ignores its inputs": (lambda x: torch.arange(64.0), one),
}


@pytest.mark.parametrize(
    ("guards", "least", "most"), [("off", 1, 1), ("cheap", 1, 2), ("full", 5, MOST_CALLS)]
)
@pytest.mark.parametrize("name", CALLED)
def test_calls_are_bounded_with_the_second_pass(case, name, guards, least, most):
    """A minute-long kernel must not be called more often than was promised."""
    kernel, make = CALLED[name]
    calls = []

    def counted(*args):
        calls.append(1)
        return kernel(*args)

    case.run(counted, make, guards=guards, inout=("x",) if name == "in place" else ())
    assert least <= len(calls) <= most
    if name != "ignores its inputs":
        assert case.event["status"] == "passed", case.event["reason"]


@pytest.mark.parametrize("name", [name for name in CALLED if name != "in doubt"])
def test_what_the_test_gets_is_as_after_a_single_call(case, name):
    kernel, make = CALLED[name]
    gave = []

    def check(data, *given):
        held = data if isinstance(data, tuple) else (data,)
        gave.append([t.clone() for t in (*held, *given) if isinstance(t, torch.Tensor)])

    for guards in ("off", "cheap", "full"):
        case.run(kernel, make, guards=guards, check=check)
    off, cheap, full = gave[:3]
    assert len(off) == len(cheap) == len(full)
    for a, b, c in zip(off, cheap, full, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


@pytest.mark.parametrize("nth", range(2, 9))
def test_a_candidate_that_raises_on_a_later_call_does_not_pass_unseen(case, nth):
    calls = []

    def kernel(x):
        calls.append(1)
        if len(calls) == nth:
            raise ZeroDivisionError("once only")
        return x * 2

    event = case.run(kernel, one)
    noted = any("ZeroDivisionError" in note for note in event["unguarded"])
    # Past the last call there is nothing to raise at; what a decoy call raises says nothing.
    assert event["status"] in ("error", "failed") or noted or nth >= len(calls) - 1
    assert event["status"] != "error" or "ZeroDivisionError" in event["reason"]


# --- the second pass ---------------------------------------------------------------------


class Thief:
    """Reads a reference at its address: it was not given it, and no search of ours finds it."""

    def __init__(self):
        self.seen = []

    def __call__(self, x):
        self.seen.append(ctypes.c_float.from_address(self.address).value)
        return x * 2


@pytest.mark.parametrize("raises", [False, True])
def test_a_reference_is_hidden_in_the_second_pass_alone(make_session, raises):
    make_session("check").session.guards = "full"
    thief, checks = Thief(), []

    def kernel(x):
        out = thief(x)
        if raises and len(checks) == 1:
            raise ZeroDivisionError
        return out

    @benchmark()
    def test_op(m):
        x = torch.randn(64)
        want = x * 2
        thief.address = want.data_ptr()
        before = want.clone()
        try:
            out, _ = run_perftest(kernel, x)
        finally:
            assert torch.equal(want, before)
            checks.append(len(thief.seen))
        checkAllclose(want, out, msg="op")

    test_op(1)
    first, second = thief.seen[: checks[0]], thief.seen[checks[0] :]
    assert len(checks) == 2
    assert not any(value != value for value in first)  # noqa: PLR0124 - NaN
    assert second
    assert all(value != value for value in second)  # noqa: PLR0124


def test_a_candidate_meets_no_mode_of_the_second_pass(case):
    """Under a mode its compiled code would be compiled anew, and what it draws be drawn twice."""
    modes = []

    def kernel(x):
        modes.append(torch.overrides._get_current_function_mode())
        return x * 2

    case.run(kernel, one)
    assert len(modes) > 5
    assert set(modes) == {None}


def test_what_a_candidate_is_given_is_never_hidden(make_session):
    """The reference of a first stage is the input of the next."""
    recorded = make_session("check")
    recorded.session.guards = "full"

    @benchmark()
    def test_op(m):
        x = torch.randn(64)
        want = x * 2
        out, _ = run_perftest(lambda x: x * 2, x)
        checkAllclose(want, out, msg="first")
        out, _ = run_perftest(lambda first: first + 1, want)
        checkAllclose(want + 1, out, msg="second")
        out, _ = run_perftest(lambda: want[:32] + 1)
        checkAllclose(want[:32] + 1, out, msg="third")

    test_op(1)
    (event,) = recorded.finished()
    assert event["status"] == "passed", event["reason"]


# --- small things ------------------------------------------------------------------------


def test_findings_outside_of_a_case_are_the_processs(make_session):
    session = make_session("check").session
    session.guards = "full"
    run_perftest(lambda x: (x * 2).as_subclass(Lazy), torch.randn(64))
    assert [failure.reason.split(":")[0] for failure in session.failures] == ["plain tensors"]


def test_a_finding_of_two_candidates_is_told_once(case):
    recorded = case._make("check")
    recorded.session.guards = "full"

    @benchmark()
    def test_op(m):
        x = torch.randn(64)
        for _ in range(2):
            out, _ = run_perftest(lambda x: (x * 2).as_subclass(Lazy), x)
            checkAllclose(x * 2, out.as_subclass(torch.Tensor), msg="op")

    test_op(1)
    assert len(recorded.finished()[0]["findings"]) == 1


def test_what_could_not_be_looked_at_is_with_the_event_once(case):
    recorded = case._make("check")
    recorded.session.guards = "full"

    @benchmark()
    def test_op(m):
        x = torch.randint(0, 99, (64,))
        for _ in range(2):
            out, _ = run_perftest(lambda x: x * 2, x)
            checkAllclose(x * 2, out, msg="op")

    test_op(1)
    (note,) = recorded.finished()[0]["unguarded"]
    assert "no floating-point input" in note


def test_random_choices_of_a_candidate_are_not_the_guards_own(case):
    """Control calls choose their numbers at random; not from the generators of the test."""
    random.seed(1)
    state = random.getstate()
    run_perftest(lambda x: x * 2, torch.randn(64))
    assert random.getstate() == state
