"""``measure_runtime`` and ``measure_runtime_torch``: whose number it is, and what is refused."""

from __future__ import annotations

import json
import math
import os
import time
from typing import NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from optest.errors import RefusedError, UsageError
from optest.testing import clocks, measuring, replicas, subject
from optest.testing.effort import Effort
from optest.testing.measuring import measure_runtime, measure_runtime_torch
from optest.testing.profiler import LABEL

QUICK = {"perf_trials_min_time": 0.02, "warmup_min_iters": 1}


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setenv("OPTEST_BUDGET_S", "0.05")
    monkeypatch.setenv("OPTEST_CACHE", "warm")  # emptying a cache of 300 MiB takes 40 ms a call
    monkeypatch.delenv("KERNELFOUNDRY_PROFILER", raising=False)


def busy(seconds):
    # The task's own way to the clock, as a kernel that works for a known time.
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_milliseconds_of_each_trial_come_back_and_into_the_list_given():
    output = [1.0]
    runtimes = measure_runtime(lambda: busy(0.004), None, output=output)
    assert isinstance(runtimes, list)
    assert len(runtimes) >= 5  # of ten calls; a busy machine preempts some, and they are left out
    assert output == [1.0, *runtimes]
    assert json.loads(json.dumps(runtimes)) == runtimes
    # In milliseconds: neither seconds nor microseconds. A busy machine only ever adds.
    assert 3.9 <= min(runtimes) < 40.0


def test_caches_are_cold_unless_the_environment_says_otherwise(monkeypatch):
    x = torch.randn(64)
    assert measure_runtime_torch(torch.exp, "cpu", (x,), **QUICK).timings[0].cache == "warm"
    monkeypatch.delenv("OPTEST_CACHE")
    assert measure_runtime_torch(torch.exp, "cpu", (x,), **QUICK).timings[0].cache == "cold"


def test_what_sync_waits_for_is_inside_the_time():
    pending = []

    def launch():
        pending.append(0.004)

    def sync():
        while pending:
            busy(pending.pop())

    runtimes = measure_runtime(launch, sync)
    assert min(runtimes) >= 3.9


def test_arguments_and_keywords_reach_the_kernel_as_given():
    seen = set()

    def kernel(a, b, *, c):
        seen.add((tuple(a.tolist()), b, c))

    measure_runtime(kernel, None, (torch.ones(2), 3), {"c": "x"}, **QUICK)
    # The control calls change the values of tensors; the rest never changes.
    assert ((1.0, 1.0), 3, "x") in seen
    assert {(b, c) for _, b, c in seen} == {(3, "x")}


def test_each_of_the_caller_s_sets_is_measured():
    seen = set()

    def kernel(x, *, scale):
        seen.add((len(x), scale))

    runtimes = measure_runtime(
        kernel, None, [(torch.ones(2),), [torch.ones(5)]], [{"scale": 1}, {"scale": 2}], **QUICK
    )
    assert seen == {(2, 1), (5, 2)}
    assert len(runtimes.timings) == 2
    assert len(runtimes) == sum(len(timing.samples_us) for timing in runtimes.timings)


def test_a_list_of_arguments_is_one_set_unless_keywords_are_a_list_too():
    assert replicas.argument_sets([1, 2]) == [((1, 2), {})]
    assert replicas.argument_sets([1, 2], {"a": 3}) == [((1, 2), {"a": 3})]
    assert replicas.argument_sets([(1,), (2,)], [{}, {}]) == [((1,), {}), ((2,), {})]
    assert replicas.argument_sets() == [((), {})]


BAD_SETS = [
    (torch.ones(3), None, "args=a Tensor: expected a tuple of arguments"),
    ((1,), "abc", "kwargs=a str: expected a dict"),
    ([(1,)], [{}, {}], "args=1 sets with a list of 2 kwargs"),
    (None, [{}], "args=a NoneType with a list of 1 kwargs"),
    ([], [], "at least one"),
    ([1], [{}], r"args\[0\]=a int: expected a tuple"),
    ([(1,)], [3], r"kwargs\[0\]=a int: expected a dict"),
]


@pytest.mark.parametrize(("args", "kwargs", "message"), BAD_SETS)
def test_arguments_that_would_be_misread_are_named(args, kwargs, message):
    # Upstream takes a tensor apart into its rows, and pairs unequal lists as far as they go.
    with pytest.raises(UsageError, match=message):
        measure_runtime(lambda *_: None, None, args, kwargs)


BAD_NUMBERS = [
    ("warmup_min_time", -1.0),
    ("warmup_min_time", math.nan),
    ("perf_trials_min_time", math.inf),
    ("perf_trials_min_time", "1"),
    ("warmup_min_iters", 1.5),
    ("perf_trials_min_iters", True),
    ("auto_replicate_inputs_size", -1),
    ("auto_replicate_inputs_size", math.nan),
]


@pytest.mark.parametrize(("name", "value"), BAD_NUMBERS)
def test_numbers_that_nothing_can_be_done_with_are_named(name, value):
    with pytest.raises(UsageError, match=f"{name}={value!r}: expected"):
        measure_runtime(lambda: None, None, **{name: value})


def test_a_kernel_or_sync_that_cannot_be_called_is_named():
    with pytest.raises(UsageError, match="target=3: expected a function"):
        measure_runtime(3, None)
    with pytest.raises(UsageError, match="sync_fn='cpu': expected a function"):
        measure_runtime(lambda: None, "cpu")


def test_least_counts_and_times_are_kept():
    began = time.monotonic()
    runtimes = measure_runtime(
        lambda: busy(0.001), None, perf_trials_min_iters=60, warmup_min_time=0.2
    )
    assert runtimes.timings[0].n >= 60
    assert time.monotonic() - began >= 0.2
    began = time.monotonic()
    measure_runtime(lambda: busy(0.001), None, perf_trials_min_time=0.3)
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize(
    ("effort", "taken", "elapsed", "more"),
    [
        (Effort(), 10, 0.1, 0),
        (Effort(perf_trials_min_iters=30), 10, 0.1, 20),
        (Effort(perf_trials_min_time=1.0), 10, 0.5, 10),
        (Effort(perf_trials_min_time=1.0), 10, 1.5, 0),
        (Effort(perf_trials_min_iters=12, perf_trials_min_time=1.0), 10, 0.5, 10),
    ],
)
def test_what_is_missing_to_the_least_time_and_count(effort, taken, elapsed, more):
    assert effort.missing(taken, elapsed) == more


def test_warm_up_calls_are_made():
    calls = []
    measure_runtime(lambda: calls.append(1), None, warmup_min_iters=50, perf_trials_min_time=0.01)
    with_warmup, calls[:] = len(calls), []
    runtimes = measure_runtime(lambda: calls.append(1), None, perf_trials_min_time=0.01)
    assert with_warmup >= 50
    assert len(calls) >= runtimes.timings[0].n


def test_a_tensor_kernel_is_timed_on_the_cpu():
    # Upstream: ValueError, the CPU is no accelerator.
    x = torch.randn(1 << 14)
    runtimes = measure_runtime_torch(torch.exp, "cpu", (x,), **QUICK)
    assert 0.0 < min(runtimes) < 1e3
    assert runtimes.timings[0].clock == "wall"
    assert measure_runtime_torch(torch.exp, torch.device("cpu"), args=[x], **QUICK)


BAD_DEVICES = ["cdua", "meta", "xpu", "mps", 3.5, None]


@pytest.mark.parametrize("device", BAD_DEVICES)
def test_a_device_that_cannot_be_timed_is_named(device):
    with pytest.raises(UsageError, match="expected cpu, cuda or cuda:<n>"):
        measure_runtime_torch(torch.exp, device, (torch.ones(2),))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_a_device_that_is_not_there_is_named():
    with pytest.raises(UsageError, match="device='cuda': this machine has no CUDA or ROCm device"):
        measure_runtime_torch(torch.exp, "cuda", (torch.ones(2),))


@pytest.mark.gpu
def test_inputs_are_moved_to_the_device_and_timed_by_its_events():
    runtimes = measure_runtime_torch(torch.exp, "cuda", (torch.randn(1 << 20),), **QUICK)
    assert runtimes.timings[0].clock == "event"


class _Pair(NamedTuple):
    x: object
    y: object


def test_tensors_are_moved_wherever_they_stand():
    where = torch.device("meta")
    x = torch.ones(2)
    moved = replicas.on_device((x, [x, {"k": x}], _Pair(x, 1), "s", None), where)
    assert moved[0].device == moved[1][0].device == moved[1][1]["k"].device == where
    assert isinstance(moved[2], _Pair)
    assert moved[2].x.device == where
    assert moved[3:] == ("s", None)


# What a kernel may do to be timed on less than its work. Each takes 20 ms where it is honest.


def test_a_kernel_that_remembers_its_answers_is_refused():
    memory = {}

    def kernel(x):
        key = float(x.sum())
        if key not in memory:
            busy(0.02)
            memory[key] = x * 2
        return memory[key]

    with pytest.raises(RefusedError, match="remembers its answers"):
        measure_runtime(kernel, None, (torch.randn(64),), **QUICK)


def test_a_kernel_that_ignores_its_inputs_is_refused():
    answers = [torch.randn(64)]
    with pytest.raises(RefusedError, match="remembers its answers"):
        measure_runtime(lambda _x: answers[0], None, (torch.randn(64),), **QUICK)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_kernel_that_works_in_its_first_calls_only_is_refused(in_place):
    # The control calls find nothing: what it does now depends on its inputs, in both forms.
    calls = []

    def returning(x):
        calls.append(1)
        return x.exp() if len(calls) <= 2 else x

    def writing(x, y):
        calls.append(1)
        if len(calls) <= 2:
            torch.exp(x, out=y)

    kernel, rest = (writing, [torch.zeros(64)]) if in_place else (returning, [])
    with pytest.raises(RefusedError, match="early calls only"):
        measure_runtime(kernel, None, (torch.randn(64), *rest), **QUICK)


def _drawing(x):
    return x + torch.randn(64)


class _Counting:
    def __init__(self):
        self.total = torch.zeros(64)

    def __call__(self, x):
        self.total = self.total + x
        return self.total


class _Tuning:
    """Settles after its first calls on an algorithm that rounds in another way."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x / 3 if self.calls < 3 else x * (1 / 3)


def _making_nan(x):
    return torch.log(x)


class _WithWorkspace:
    """What its workspace holds is nobody's, and stays that once memory is used again."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x * 2, torch.full((64,), float(min(self.calls, 3)))


@pytest.mark.parametrize(
    "kernel", [_drawing, _Counting(), _Tuning(), _making_nan, _WithWorkspace()]
)
def test_a_kernel_whose_answers_differ_for_good_reasons_is_timed(kernel):
    assert measure_runtime(kernel, None, (torch.randn(64),), **QUICK)


@pytest.mark.parametrize("honest_calls", [0, 7])
def test_a_kernel_that_zeroes_its_input_is_timed_on_the_input(honest_calls):
    # Upstream gives nothing back: from the second call on it times the easy case. One that waits
    # until the warm-up is over is measured anew.
    calls = []

    def kernel(x):
        calls.append(1)
        if float(x.abs().sum()) > 0.0:
            busy(0.02)
        if len(calls) > honest_calls:
            x.zero_()

    x = torch.randn(64)
    before = x.clone()
    runtimes = measure_runtime(kernel, None, (x,), **QUICK)
    assert min(runtimes) >= 19.0
    assert torch.equal(x, before)


def test_inputs_end_as_they_began_although_the_kernel_raises():
    x = torch.ones(4)

    def kernel(x):
        x.add_(1)
        raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        measure_runtime(kernel, None, (x,))
    assert torch.equal(x, torch.ones(4))


def test_an_update_in_place_is_called_on_the_same_values_each_time():
    seen = set()

    def kernel(y):
        seen.add(float(y[0]))
        y.mul_(2)

    y = torch.ones(4)
    measure_runtime(kernel, None, (y,), **QUICK)
    assert seen == {1.0}
    assert torch.equal(y, torch.ones(4))


def test_arrays_of_numpy_are_given_back_too():
    x = np.ones(8)

    def kernel(x):
        x *= 2

    measure_runtime(kernel, None, (x,), **QUICK)
    assert (x == 1).all()


CLOCKS = ["perf_counter", "perf_counter_ns", "monotonic", "time"]


@pytest.mark.parametrize("name", CLOCKS)
def test_a_replaced_clock_is_refused_before_anything_is_timed(monkeypatch, name):
    def slow_clock():
        return 0

    monkeypatch.setattr(time, name, slow_clock)
    with pytest.raises(RefusedError, match=rf"time.{name} was replaced by .*slow_clock \(test_m"):
        measure_runtime(lambda: None, None)


@pytest.mark.parametrize("name", ["time", "NS_PER_US"])
def test_a_clock_that_the_harness_no_longer_reaches_is_refused(monkeypatch, name):
    from optest.timing import wall

    class Slow:
        perf_counter_ns = staticmethod(lambda: 0)

    monkeypatch.setattr(wall, name, Slow() if name == "time" else 1e9)
    with pytest.raises(RefusedError, match=f"optest.timing.wall.{name} was replaced"):
        measure_runtime(lambda: None, None)


def test_a_clock_that_the_kernel_replaces_is_refused(monkeypatch):
    original = time.perf_counter_ns
    monkeypatch.setattr(time, "perf_counter_ns", original)  # to be put back, whatever happens

    def kernel():
        time.perf_counter_ns = lambda: original() // 1000

    with pytest.raises(RefusedError, match=r"time.perf_counter_ns was replaced"):
        measure_runtime(kernel, None)


def test_a_clock_that_the_kernel_replaces_for_a_few_calls_is_refused(monkeypatch):
    original = time.perf_counter_ns
    monkeypatch.setattr(time, "perf_counter_ns", original)
    calls = []

    def kernel():
        calls.append(1)
        fast = len(calls) % 16 == 9  # put back before a batch ends
        time.perf_counter_ns = (lambda: original() // 1000) if fast else original

    with pytest.raises(RefusedError, match=r"time.perf_counter_ns was replaced"):
        measure_runtime(kernel, None)


def test_a_function_of_the_harness_that_was_replaced_is_refused(monkeypatch):
    from optest.timing import preemption
    from optest.timing.wall import WallClock

    for owner, name, path in (
        (WallClock, "time", "WallClock.time"),
        (preemption, "switches", "optest.timing.preemption.switches"),
        (torch.cuda, "synchronize", "torch.cuda.synchronize"),
        (subject.Subject, "measure", "Subject.measure"),
        (torch.cuda.Event, "elapsed_time", "Event.elapsed_time"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, lambda *_: 0)
            with pytest.raises(RefusedError, match=f"{path} was replaced"):
                measure_runtime(lambda: None, None)
    clocks.check_all()


@pytest.mark.parametrize(("profiler", "calls"), [("ncu", 1), ("unitrace", 10), ("rocprof", 10)])
def test_under_a_profiler_a_few_plain_calls_are_made_and_told_in_milliseconds(
    monkeypatch, profiler, calls
):
    # Upstream under ncu: seconds, so that the speedup is off by a thousand.
    monkeypatch.setenv("KERNELFOUNDRY_PROFILER", profiler)
    made = []

    def kernel():
        made.append(1)
        busy(0.004)

    output = []
    runtimes = measure_runtime(kernel, None, output=output)
    assert len(made) == len(runtimes) == calls
    assert output == runtimes
    assert min(runtimes) >= 3.9
    del made[:]
    measure_runtime(kernel, None, reduce_iterations_for_external_profiler=False)
    assert len(made) > 10


def test_the_label_stands_while_the_kernel_runs_and_no_longer(monkeypatch):
    monkeypatch.setenv(LABEL, "outer")
    seen = set()
    measure_runtime(lambda: seen.add(os.environ[LABEL]), None, profiler_label="inner")
    assert seen == {"inner"}
    assert os.environ[LABEL] == "outer"
    monkeypatch.delenv(LABEL)
    measure_runtime(lambda: None, None, profiler_label="inner")
    assert LABEL not in os.environ


def test_inputs_that_flatter_a_kernel_are_named(caplog, monkeypatch):
    monkeypatch.setattr(measuring.logger, "propagate", True)
    with caplog.at_level("WARNING"):
        measure_runtime(torch.exp, None, (torch.zeros(64),), **QUICK)
    assert "every float input holds one value throughout" in caplog.text
    caplog.clear()
    out = torch.empty(64)
    with caplog.at_level("WARNING"):
        measure_runtime(lambda x: torch.exp(x, out=out), None, (torch.randn(64),), **QUICK)
    assert "holds one value" not in caplog.text


@pytest.mark.parametrize(
    ("own", "wanted", "cache", "sets"),
    [
        (1 << 20, 128 << 20, 32 << 20, 129),  # more than are ever made: the flush alone
        (2 << 20, 128 << 20, 32 << 20, 65),
        (2 << 20, 0, 32 << 20, 1),
        (128 << 20, 128 << 20, 32 << 20, 1),
        (0, 128 << 20, 32 << 20, 1),
        (8 << 20, 16 << 20, 64 << 20, 9),  # outgrow the cache as well
    ],
)
def test_copies_outgrow_the_size_asked_for_and_the_cache(monkeypatch, own, wanted, cache, sets):
    class Arch:
        last_level_cache_bytes = cache

    monkeypatch.setattr(replicas.arch, "host", Arch)
    arguments = ((torch.empty(own, dtype=torch.uint8),), {})
    assert replicas.sets_to_rotate(arguments, wanted) == (sets if sets <= 100 else 1)


def test_copies_are_used_in_turn_and_hold_the_same(monkeypatch):
    # Not a function of this file's in its place: that would be refused.
    monkeypatch.setattr(replicas, "sets_to_rotate", Mock(return_value=3))
    addresses, sums = set(), []

    def kernel(x):
        addresses.add(x.data_ptr())
        sums.append(float(x.sum()))
        return x * 2

    x = torch.randn(64)
    expected = float(x.sum())
    measure_runtime(kernel, None, (x,), **QUICK)
    assert len(addresses) >= 3
    assert sums.count(expected) > len(sums) / 2


def test_options_that_do_not_apply_are_accepted(monkeypatch):
    said = []
    monkeypatch.setattr(measuring, "once", Mock(side_effect=said.append))
    measure_runtime(lambda: None, None, inner_loop_min_time=0.01, use_itt=True, info_str="i")
    assert [words.partition(":")[0] for words in said] == ["inner_loop_min_time", "use_itt"]
