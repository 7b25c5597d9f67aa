"""Names of launched kernels: from the clock that sees them, or from one more call."""

from __future__ import annotations

import importlib
import itertools
import json
import types

import pytest
import torch
from told_clocks import Counted, ToldClock
from torch.autograd import DeviceType

from optest.errors import RefusedError
from optest.timing import Plan, Timing, launched, measure, phases
from optest.timing.clock import Target
from optest.timing.profiler import DeviceEvent, ProfilerClock, device_events, names
from optest.timing.wall import WallClock


def recorder(*told):
    """Stands for the profiler: runs the work, and has recorded these names in this order."""

    def record(work):
        data = work()
        return [DeviceEvent(name, 10.0 * at, 10.0 * at + 5.0) for at, name in enumerate(told)], data

    return record


def test_names_stand_once_in_the_order_of_their_first_launch():
    events = [
        DeviceEvent("second", 4.0, 9.0),
        DeviceEvent("first", 1.0, 2.0),
        DeviceEvent("second", 2.0, 3.0),
        DeviceEvent("third", 5.0, 6.0),
    ]
    assert names(events) == ("first", "second", "third")
    assert names([]) == ()


def test_names_of_recorded_events_leave_the_host_and_annotations_out():
    def event(name, device, start, *, annotation=False):
        span = types.SimpleNamespace(start=start, end=start + 2)
        return types.SimpleNamespace(
            name=name, device_type=device, time_range=span, is_user_annotation=annotation
        )

    # As a profile of x @ y + 1 on a GPU holds them.
    recorded = [
        event("aten::mm", DeviceType.CPU, 0),
        event("optest: measure", DeviceType.CUDA, 0, annotation=True),
        event("void at::native::elementwise_kernel<128, 2>", DeviceType.CUDA, 9),
        event("sm90_xmma_gemm_bf16bf16_tn_n", DeviceType.CUDA, 4),
        event("cudaLaunchKernel", DeviceType.CPU, 1),
    ]
    found = names(device_events(types.SimpleNamespace(events=lambda: recorded)))
    assert found == ("sm90_xmma_gemm_bf16bf16_tn_n", "void at::native::elementwise_kernel<128, 2>")


def test_the_profiler_clock_names_what_the_call_launched_and_not_the_flush():
    def record(work):
        at, log = 0.0, []

        def launch(name):
            nonlocal at
            log.append(DeviceEvent(name, at, at + 5.0 + 0.1 * len(log)))
            at += 10.0

        device.launch = launch
        data = work()
        return log, data

    device = types.SimpleNamespace(launch=None)

    def kernel():
        device.launch("gemm")
        device.launch("epilogue")

    clock = ProfilerClock(record, lambda: None)
    [reading] = clock.time([Target(kernel)], 3, lambda: device.launch("flush"))
    assert reading.kernels == ("gemm", "epilogue")
    plan = Plan(clock=clock, cache="warm", num_iters=4)
    assert measure(kernel, plan=plan)[1].kernels == ("gemm", "epilogue")


def test_one_more_call_is_recorded_on_the_first_set_of_arguments():
    seen = []
    target = Target(seen.append, (((1,), {}), ((2,), {})))
    assert launched.kernels_of(target, recorder("a", "b", "a")) == (("a", "b"), "")
    assert seen == [1]


def test_a_call_that_launches_nothing_says_so():
    assert launched.kernels_of(Target(lambda: None), recorder()) == (
        (),
        "no kernel was recorded in a call",
    )


def test_a_profiler_that_cannot_run_is_a_note_and_no_failure():
    def record(work):
        raise RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")

    found, note = launched.kernels_of(Target(lambda: None), record)
    assert found == ()
    assert "INSUFFICIENT_PRIVILEGES" in note


def test_what_the_function_raises_goes_on():
    def bad():
        raise ValueError("no such shape")

    with pytest.raises(ValueError, match="no such shape"):
        launched.kernels_of(Target(bad), recorder("a"))


def test_under_a_profiler_of_others_nothing_is_recorded_twice():
    run = Counted(1.0)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        found, note = launched.kernels_of(Target(run), recorder("a"))
    assert (found, run.calls) == ((), 0)
    assert "being recorded" in note


def on_a_device(monkeypatch, kernels_of):
    """Measurements take the work for a device's, and ask this function for the kernels."""
    module = importlib.import_module("optest.timing.measure")
    policy = module.cache.policy
    monkeypatch.setattr(module, "device_of", lambda tensors: "cuda")
    monkeypatch.setattr(module.cache, "policy", lambda *_: policy("warm", "cpu", ()))
    monkeypatch.setattr(module.launched, "kernels_of", kernels_of)


def test_the_recorded_call_meets_the_inputs_as_given(monkeypatch):
    seen = []
    on_a_device(monkeypatch, lambda target: (seen.append(x.tolist()), ((), "none"))[1])
    x = torch.zeros(3)
    measure(lambda: x.add_(1.0), plan=Plan(clock=WallClock(), cache="warm", num_iters=3))
    assert seen == [[0.0, 0.0, 0.0]]
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_where_the_clock_has_told_the_kernels_no_call_is_recorded_for_them(monkeypatch):
    def never(target):
        raise AssertionError("asked again")

    launches = []

    def record(work):
        launches.clear()
        data = work()
        return [DeviceEvent("gemm", 9.0 * at, 9.0 * at + 5.0 + 0.1 * at) for at in launches], data

    on_a_device(monkeypatch, never)
    plan = Plan(clock=ProfilerClock(record, lambda: None), cache="warm", num_iters=4)
    assert measure(lambda: launches.append(len(launches)), plan=plan)[1].kernels == ("gemm",)


def test_a_measurement_on_a_device_names_the_kernels(monkeypatch):
    on_a_device(monkeypatch, lambda target: (("gemm", "Memset (Device)"), f"call {target.func()}"))
    run = Counted(*[20.0 + 0.01 * at for at in range(7)])
    plan = Plan(clock=ToldClock(), cache="warm", num_iters=5)
    timing = measure(run, plan=plan)[1]
    assert timing.kernels == ("gemm", "Memset (Device)")
    assert timing.calls == run.calls
    assert any(note.startswith("call 20.0") for note in timing.notes)
    told = json.loads(json.dumps(timing.to_dict()))
    assert told["kernels"] == ["gemm", "Memset (Device)"]
    assert Timing.from_dict(told).kernels == timing.kernels


def test_on_a_cpu_no_call_is_added_and_no_kernel_named():
    run = Counted(*[20.0 + 0.01 * at for at in range(7)])
    timing = measure(run, plan=Plan(clock=ToldClock(), cache="warm", num_iters=5))[1]
    assert timing.kernels == ()
    assert timing.calls == run.calls


def test_a_refusal_is_still_one():
    clock = ProfilerClock(recorder("once"), lambda: None)
    with pytest.raises(RefusedError, match="no multiple"):
        measure(lambda: None, plan=Plan(clock=clock, cache="warm", num_iters=4))


def test_phases_are_ranges_of_a_trace_and_nothing_without_one():
    assert not phases.recording()
    with phases.phase("outside"):
        pass
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        assert phases.recording()
        with phases.phase("inside"):
            torch.ones(3).sum()
    found = {event.name for event in prof.events()}
    assert "optest: inside" in found
    assert "optest: outside" not in found


def test_the_phases_of_a_measurement_come_in_their_order():
    x = torch.ones(64, 64)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        timing = measure(torch.mm, (x, x), plan=Plan(num_iters=3, need_trace=True))[1]
    ranges = {e.name: e.time_range for e in prof.events() if e.name.startswith(phases.PREFIX)}
    order = ["warm-up", "measure", "control", "last call"]
    assert [*ranges] == [phases.PREFIX + name for name in order]
    spans = [*ranges.values()]
    assert all(a.end <= b.start for a, b in itertools.pairwise(spans))
    assert timing.trace is None
    assert "no trace of its own: one is being recorded already" in timing.notes


def test_a_trace_of_its_own_has_three_calls_with_their_operators(tmp_path):
    x = torch.ones(64, 64)
    plan = Plan(num_iters=3, need_trace=True, trace_dir=tmp_path)
    timing = measure(torch.mm, (x, x), plan=plan)[1]
    [path] = tmp_path.iterdir()
    assert timing.trace == str(path)
    spans = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]
    calls = [e for e in spans if e["name"] == "optest: call"]
    products = [e for e in spans if e["name"] == "aten::mm"]
    assert len(calls) == len(products) == 3
    for call, product in zip(calls, products, strict=True):
        assert call["ts"] <= product["ts"]
        assert product["ts"] + product["dur"] <= call["ts"] + call["dur"]
