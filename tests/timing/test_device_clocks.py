"""The arithmetic of the device clocks, on events that are told to them."""

from __future__ import annotations

import types

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import DeviceType

from optest.errors import RefusedError, UsageError
from optest.timing import Plan, measure
from optest.timing.clock import Target
from optest.timing.event import EventClock
from optest.timing.graph import GraphClock
from optest.timing.profiler import (
    DeviceEvent,
    ProfilerClock,
    busy_us,
    device_events,
    get_trace_perf,
    per_call,
)


class Device:
    """A device whose time passes as its kernels say; it works through what is enqueued at sync."""

    def __init__(self):
        self.now_us, self.queue, self.syncs, self.log = 0.0, [], 0, []

    def launch(self, name, us):
        self.queue.append((name, us))

    def event(self):
        return _Event(self)

    def sync(self):
        self.syncs += 1
        for item in self.queue:
            if isinstance(item, _Event):
                item.at_us = self.now_us
            else:
                name, us = item
                self.log.append(DeviceEvent(name, self.now_us, self.now_us + us))
                self.now_us += us
        self.queue.clear()

    def record(self, work):
        self.sync()
        self.log.clear()
        data = work()
        self.sync()
        return list(self.log), data

    def capture(self, work):
        held, self.queue = self.queue, []
        data = work()
        captured, self.queue = self.queue, held
        graph = types.SimpleNamespace(
            replay=lambda: self.queue.extend([("launch", 7.0), *captured])
        )
        return graph, data


class _Event:
    def __init__(self, device):
        self.device, self.at_us = device, None

    def record(self):
        self.device.queue.append(self)

    def elapsed_time(self, end):
        return (end.at_us - self.at_us) / 1e3  # torch gives milliseconds


def kernel(device, *lengths):
    calls = []

    def run(*args):
        us = lengths[len(calls) % len(lengths)]
        calls.append(args)
        device.launch("kernel", us)
        return len(calls)

    run.calls = calls
    return run


def test_event_clock_reads_each_call_and_not_what_comes_before():
    device = Device()
    clock = EventClock(device.event, device.sync)
    run = kernel(device, 10.0, 20.0, 30.0)
    noop = Target(lambda: None)
    [off, reading] = clock.time([noop, Target(run)], 3, lambda: device.launch("flush", 500.0))
    assert reading.us == pytest.approx([10.0, 20.0, 30.0])
    assert off.us == pytest.approx([0.0, 0.0, 0.0])
    assert (reading.data, reading.calls, device.syncs) == (3, 3, 2)


def test_graph_clock_takes_the_launch_out():
    device = Device()
    clock = GraphClock(device.capture, device.event, device.sync)
    run = kernel(device, 5.0)
    sets = [((index,), {}) for index in range(4)]
    [reading] = clock.time([Target(run, sets)], 3, None)
    assert reading.us == pytest.approx([5.0] * 3)
    assert reading.calls == len(run.calls)
    assert run.calls[-1] == (0,)  # the caller's own arguments give the result


def test_graph_clock_refuses_a_kernel_that_is_launched_once():
    device = Device()
    clock = GraphClock(device.capture, device.event, device.sync)
    launched = []

    def remembers():
        if not launched:
            launched.append(device.launch("kernel", 100.0))

    with pytest.raises(RefusedError, match="launched nothing"):
        clock.time([Target(remembers)], 5, None)


@pytest.mark.parametrize("flush", [False, True])
def test_profiler_clock_reads_the_kernels_of_each_call(flush):
    device = Device()
    clock = ProfilerClock(device.record, device.sync)
    run = kernel(device, 10.0, 20.0, 30.0)
    before = (lambda: device.launch("fill", 500.0)) if flush else None
    [reading] = clock.time([Target(run)], 3, before)
    assert reading.us == pytest.approx([10.0, 20.0, 30.0])
    assert (reading.data, reading.calls) == (3, 3)


@pytest.mark.parametrize(
    ("launches", "message"),
    [
        ([("k", 1)], "'k' was recorded 1 times in 101 calls"),
        ([("k", 100)], "100 times in 101"),
        ([("k", 101), ("tail", 3)], "'tail' was recorded 3 times"),
        ([], "no device kernel was recorded in 101 calls"),
    ],
)
def test_no_number_of_launches_is_assumed(launches, message):
    events = [
        DeviceEvent(name, 10.0 * index, 10.0 * index + 1)
        for name, count in launches
        for index in range(count)
    ]
    with pytest.raises(RefusedError, match=message):
        per_call(events, 101)


def test_kernels_that_differ_from_call_to_call_are_refused():
    names = ["a", "b", "a", "a", "b", "b"]  # three calls of two, each name three times
    events = [DeviceEvent(name, 10.0 * at, 10.0 * at + 1) for at, name in enumerate(names)]
    with pytest.raises(RefusedError, match="call 1 of 3"):
        per_call(events, 3)


def test_a_cpu_operator_under_the_profiler_clock_is_refused():
    device = Device()
    clock = ProfilerClock(device.record, device.sync)
    with pytest.raises(RefusedError, match="use the wall clock"):
        clock.time([Target(lambda: 1)], 3, None)
    with pytest.raises(RefusedError, match="use the wall clock"):
        clock.time([Target(lambda: 1)], 3, lambda: device.launch("fill", 1.0))


spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=12)


@given(spans)
def test_busy_time_counts_every_moment_once(spans):
    events = [DeviceEvent("k", start, start + length) for start, length in spans]
    moments = {at for start, length in spans for at in range(start, start + length)}
    assert busy_us(events) == len(moments)


def _profile(*events):
    return types.SimpleNamespace(
        events=lambda: [
            types.SimpleNamespace(
                name=name,
                device_type=kind,
                is_user_annotation=annotation,
                time_range=types.SimpleNamespace(start=start, end=end),
            )
            for name, kind, annotation, start, end in events
        ]
    )


def test_trace_perf_is_the_device_time_of_one_iteration():
    prof = _profile(
        ("aten::mm", DeviceType.CPU, False, 0, 900),
        ("gemm", DeviceType.CUDA, False, 10, 30),
        ("range", DeviceType.CUDA, True, 0, 500),
        ("gemm", DeviceType.CUDA, False, 50, 90),
    )
    assert get_trace_perf(prof, 2) == 30.0
    assert [event.name for event in device_events(prof)] == ["gemm", "gemm"]
    with pytest.raises(RefusedError, match="2 times in 4"):
        get_trace_perf(prof, 4)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match="num_iters"):
            get_trace_perf(prof, bad)


def test_trace_perf_of_a_real_profile_without_a_device_is_refused():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        torch.ones(8).sum()
    with pytest.raises(RefusedError, match="nothing ran there"):
        get_trace_perf(prof, 1)


@pytest.mark.parametrize("make", ["event", "graph", "profiler"])
@pytest.mark.parametrize("num_iters", [1, 7, 30, None])
def test_the_loop_works_with_every_clock(make, num_iters):
    device = Device()
    clock = {
        "event": lambda: EventClock(device.event, device.sync),
        "graph": lambda: GraphClock(device.capture, device.event, device.sync),
        "profiler": lambda: ProfilerClock(device.record, device.sync),
    }[make]()
    run = kernel(device, *[20.0 + 0.01 * at for at in range(7)])
    plan = Plan(num_iters=num_iters, clock=clock, cache="warm", budget_s=0.05)
    data, timing = measure(run, plan=plan)
    assert timing == pytest.approx(20.03, abs=0.05)
    assert timing.clock == make
    assert timing.calls == len(run.calls)
    if make != "graph":  # there the call that gives the result is not captured last
        assert data == timing.calls


@pytest.mark.gpu
@pytest.mark.parametrize("clock", ["event", "graph", "profiler", "wall"])
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_a_product_on_the_device_takes_a_plausible_time(clock, cache):
    x = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    data, timing = measure(torch.mm, (x, x), plan=Plan(clock=clock, cache=cache))
    torch.testing.assert_close(data, x @ x)
    assert timing.clock == clock
    assert 5.0 < timing < 2000.0


@pytest.mark.gpu
@pytest.mark.parametrize("clock", ["event", "graph", "profiler"])
def test_a_kernel_launched_once_is_refused_on_the_device(clock):
    x = torch.randn(1024, 1024, device="cuda")
    kept = []

    def remembers():
        if not kept:
            kept.append(x @ x)
        return kept[0]

    with pytest.raises(RefusedError):
        measure(remembers, plan=Plan(clock=clock))
