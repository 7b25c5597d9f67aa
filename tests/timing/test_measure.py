from __future__ import annotations

import dataclasses
import json
import time

import numpy as np
import pytest
import torch
from told_clocks import Counted, ToldClock

from optest import native
from optest.tensors import Snapshot, tensors_in
from optest.timing import Plan, measure

QUICK = {"num_iters": 5, "cache": "warm"}


@pytest.mark.parametrize("num_iters", [1, 2, 9, 101, None])
@pytest.mark.parametrize("num_warmup", [0, 1, 2])
@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_calls_reported_are_calls_made(num_iters, num_warmup, cache):
    if cache == "cold" and num_iters == 101:
        pytest.skip("four seconds of flushing for nothing new")
    made = []
    plan = Plan(num_iters=num_iters, num_warmup=num_warmup, cache=cache, budget_s=0.05)
    _, timing = measure(lambda x: made.append(x.sum()), (torch.ones(64),), plan=plan)
    assert timing.calls == len(made)
    assert timing.n == (num_iters or timing.n) >= (num_iters or 10)
    assert timing > 0.0
    assert timing.cache == cache


def test_cold_is_the_default_also_for_a_closure_and_the_timing_says_so():
    x, out = np.ones(1 << 20), np.empty(4096)  # one thread, and nothing a prefetcher could guess
    places = np.random.default_rng(0).integers(0, x.size, out.size)
    _, cold = measure(lambda: x.take(places, out=out), plan=Plan(num_iters=7))
    _, warm = measure(lambda: x.take(places, out=out), plan=Plan(num_iters=7, cache="warm"))
    assert (cold.cache, warm.cache) == ("cold", "warm")
    assert "before each call" in cold.policy
    assert cold.min_us > warm.min_us


class _Holder:
    def __init__(self, tensor):
        self.tensor = tensor

    def step(self):
        return self.tensor.add_(1)


@dataclasses.dataclass
class _Pair:
    out: torch.Tensor
    scale: float = 1.0


def _ways_to_reach(a):
    held = _Holder(a)
    return {
        "argument": (lambda x: x.add_(1), (a,), {}),
        "keyword": (lambda *, x: x.add_(1), (), {"x": a}),
        "list": (lambda xs: xs[0].add_(1), ([a],), {}),
        "dict": (lambda xs: xs["a"].add_(1), ({"a": a},), {}),
        "dataclass": (lambda pair: pair.out.add_(1), (_Pair(a),), {}),
        "closure": (lambda: a.add_(1), (), {}),
        "method": (held.step, (), {}),
        "tensor's method": (a.add_, (1,), {}),
        "view": (lambda x: x.add_(1), (a[:],), {}),
        "twice": (lambda x, out: torch.add(x, 1, out=out), (a,), {"out": a}),
    }


@pytest.mark.parametrize("way", list(_ways_to_reach(torch.zeros(1))))
@pytest.mark.parametrize("plan", [Plan(**QUICK), Plan(num_warmup=0, **QUICK), Plan(num_iters=2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_the_result_is_that_of_one_call_on_the_given_input(way, plan, dtype):
    a = torch.full((32,), 3, dtype=dtype)
    func, args, kwargs = _ways_to_reach(a)[way]
    data, _ = measure(func, args, kwargs, plan=plan)
    assert torch.equal(a, torch.full((32,), 4, dtype=dtype))
    assert data.data_ptr() == a.data_ptr()


@pytest.mark.parametrize("num_warmup", [0, 2])
def test_a_call_made_before_by_the_caller_is_undone_too(num_warmup):
    a = torch.full((32,), 3.0)
    snapshot = Snapshot(tensors_in(a))
    a.add_(1)
    plan = Plan(num_warmup=num_warmup, **QUICK)
    measure(a.add_, (1,), plan=plan, snapshot=snapshot)
    assert torch.equal(a, torch.full((32,), 4.0))


@pytest.mark.parametrize("num_warmup", [0, 2])
@pytest.mark.parametrize("rotate", [0, 3])
def test_values_written_in_place_do_not_run_away(num_warmup, rotate):
    a, seen = torch.ones(4), []
    plan = Plan(num_iters=200, num_warmup=num_warmup, num_rotate_args=rotate, cache="warm")
    measure(lambda x: seen.append(float(x.mul_(2.0)[0])), (a,), plan=plan)
    assert max(seen) <= 2.0**16
    assert torch.equal(a, torch.full((4,), 2.0))


class _Boom(Exception):
    pass


@pytest.mark.parametrize("kind", [_Boom, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("at", [1, 2, 3, 7])
def test_what_the_kernel_raises_comes_out_and_the_tensors_are_given_back(kind, at):
    a, calls = torch.full((16,), 3.0), []

    def kernel(x):
        calls.append(1)
        x.add_(1)
        if len(calls) == at:
            raise kind("third call")

    with pytest.raises(kind, match="third call"):
        measure(kernel, (a,), plan=Plan(**QUICK))
    assert len(calls) == at
    assert torch.equal(a, torch.full((16,), 3.0))


def test_arguments_of_the_kernel_are_its_own():
    data, _ = measure(
        lambda x, num_iters: x + num_iters, (1,), {"num_iters": 7}, plan=Plan(**QUICK)
    )
    assert data == 8


@pytest.mark.parametrize("clock", ["event", "graph", "profiler"])
@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_a_cpu_operator_under_a_device_clock_is_timed_on_the_wall(clock):
    _, timing = measure(torch.sum, (torch.ones(1000),), plan=Plan(clock=clock, **QUICK))
    assert timing.clock == "wall"
    assert 0.0 < timing < 1e6
    assert clock in timing.notes[0]


@pytest.mark.parametrize(("seconds", "num_iters"), [(20e-6, 20), (2e-3, 10), (0.3, 1)])
def test_the_unit_is_microseconds_at_any_length(seconds, num_iters):
    def spin():
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass

    plan = Plan(num_iters=num_iters, num_warmup=0, cache="warm")
    _, timing = measure(spin, plan=plan)
    assert timing.min_us >= 0.99 * seconds * 1e6
    assert timing.min_us <= 2.0 * seconds * 1e6


def test_rotation_takes_turns_with_copies_and_ends_on_the_callers_own():
    x, seen = torch.ones(1024), []

    def kernel(x, out):
        seen.append(x.data_ptr())
        assert torch.equal(x, torch.ones_like(x))
        return out.add_(x)

    out = torch.zeros(1024)
    plan = Plan(num_iters=42, num_rotate_args=20, controls=False, cache="warm")
    data, timing = measure(kernel, (x, out), plan=plan)
    assert len(set(seen)) == 20  # more than a batch has calls
    assert seen[-1] == x.data_ptr()
    assert data is out
    assert torch.equal(out, torch.ones_like(out))
    assert timing.n == 42


def test_rotation_keeps_aliases_and_copies_a_view_not_its_storage():
    base = torch.ones(1 << 24)
    y = base[:4]

    def kernel(a, out):
        assert a.data_ptr() == out.data_ptr()
        assert a.untyped_storage().nbytes() in (16, base.nbytes)
        return out.mul_(1.0)

    measure(kernel, (y,), {"out": y}, plan=Plan(num_rotate_args=50, **QUICK))


def test_rotation_stays_within_memory(monkeypatch):
    monkeypatch.setattr("optest.timing.rotation._free_bytes", lambda device: 64 << 10)
    x, seen = torch.ones(1024), set()
    plan = Plan(num_iters=30, num_rotate_args=20, controls=False, cache="warm")
    _, timing = measure(lambda x: seen.add(x.data_ptr()), (x,), plan=plan)
    assert len(seen) == 1 + 4  # half of 64 KiB, 8 KiB a set with what is kept of it
    assert "do not fit" in timing.notes[0]


@pytest.mark.parametrize("gfx", [None, "gfx1250"])
def test_sets_fill_the_cache_of_the_device_whatever_a_gate_is_told(gfx, monkeypatch):
    """A dry run of a gate names an arch without a device: one set would be warm, not cold."""
    if gfx is not None:
        monkeypatch.setenv("OPTEST_GFX", gfx)
    x, seen, clock = torch.ones(1 << 20), set(), ToldClock()
    clock.name = "graph"
    plan = Plan(num_iters=6, controls=False, clock=clock)
    measure(lambda x: seen.add(x.data_ptr()) or 100.0 + len(seen), (x,), plan=plan)
    assert len(seen) > 1


@pytest.mark.parametrize("rotate", [0, 3])
def test_a_trace_is_a_chrome_trace(tmp_path, rotate):
    plan = Plan(need_trace=True, trace_dir=tmp_path, num_rotate_args=rotate, **QUICK)
    a = torch.zeros(64)
    data, timing = measure(torch.Tensor.add_, (a, 1), plan=plan)
    trace = json.loads((tmp_path / timing.trace.rpartition("/")[2]).read_text(encoding="utf-8"))
    assert any(event.get("name") == "aten::add_" for event in trace["traceEvents"])
    assert torch.equal(data, torch.ones(64))


def test_leaves_that_need_a_gradient_are_inputs_like_any():
    w = torch.nn.Parameter(torch.ones(32, 32))
    x = torch.ones(32, 32, requires_grad=True)
    data, _ = measure(torch.mm, (x, w), plan=Plan(**QUICK))
    data.sum().backward()
    assert torch.equal(w.grad, torch.full((32, 32), 32.0))


def test_a_saved_graph_can_still_be_run_backward():
    x = torch.randn(64, requires_grad=True)
    y = (x * x).sum()

    def backward():
        return torch.autograd.grad(y, x, retain_graph=True)

    [grad], _ = measure(backward, plan=Plan(**QUICK))
    assert torch.equal(grad, 2 * x.detach())


def test_measuring_costs_little_beside_the_calls():
    """101 warm calls of a trivial kernel. On an idle machine it is 0.5 ms, in the best of many."""
    x = torch.ones(8)
    plan = Plan(num_iters=101, cache="warm")
    beside = []
    for _ in range(30):
        start = time.perf_counter()
        _, timing = measure(torch.neg, (x,), plan=plan)
        beside.append((time.perf_counter() - start) * 1e6 - timing.calls * timing)
    assert min(beside) < 2_500


def test_nothing_is_timed_while_a_compiler_runs(monkeypatch):
    order = []
    clock = ToldClock()
    times = clock.time
    monkeypatch.setattr(native, "settle", lambda: order.append("settled"))
    monkeypatch.setattr(clock, "time", lambda *args: order.append("timed") or times(*args))
    measure(Counted(9.0, 9.1), plan=Plan(**QUICK, clock=clock))
    assert order[0] == "settled"
    assert order.count("settled") == 1
    assert "timed" in order
