"""The state of the machine before a timed call, and the no-op that shows what the harness costs."""

from __future__ import annotations

import inspect
import itertools
import random
import time

import numpy as np
import pytest
import torch

from optest import arch, native
from optest.timing import Plan, cache, measure, overhead, preemption
from optest.timing.clock import Reading, Target
from optest.timing.prepare import Preparation
from optest.timing.samples import Samples
from optest.timing.wall import WallClock

needs_native = pytest.mark.skipif(not native.available(), reason="needs a compiler")


@pytest.mark.parametrize("switch", ["auto", "off"])
def test_a_flush_evicts_data_with_and_without_native_code(switch, monkeypatch):
    monkeypatch.setenv("OPTEST_NATIVE", switch)
    policy = cache.policy("cold", "cpu")
    assert policy.state == "cold"
    assert ("walked" if switch == "auto" and native.available() else "added") in policy.words
    data, out = np.ones(1 << 20), np.empty(4096)  # one thread, and nothing a prefetcher could guess
    places = np.random.default_rng(0).integers(0, data.size, out.size)

    def best_us(before):
        look = Target(lambda: data.take(places, out=out))
        return min(WallClock().time([look], 9, before)[0].us)

    assert best_us(policy.before) > 1.5 * best_us(None)


def test_the_buffer_is_twice_as_large_as_the_last_level_cache():
    policy = cache.policy("cold", "cpu")
    [buffer] = policy.before.args
    assert buffer.nbytes >= 2 * (arch.host().last_level_cache_bytes or 1)
    assert cache.policy("cold", "cpu").before.args[0] is buffer  # made once


def test_warm_does_nothing_before_a_call():
    assert cache.policy("warm", "cpu").before is None


@needs_native
@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("spin", (1.0,), "optest::noop_us"),
        ("spin_on", (torch.ones(2), 1.0), "optest::noop_on"),
        ("noop", (torch.ones(2),), "optest::noop"),
    ],
)
@pytest.mark.parametrize("overload", [False, True])
def test_an_operator_of_ours_is_compared_with_one_of_its_kind(name, args, words, overload):
    func = getattr(native.csrc("harness"), name)
    func = func.default if overload else func
    no_op = overhead.no_op(Target(func, ((args, {}),)))
    assert no_op.words == words
    assert type(no_op.target.func) is type(func)
    assert no_op.target.func(*no_op.target.sets[0][0]) is None
    assert no_op.wake() is None
    woken = [other for other, _ in inspect.getclosurevars(no_op.wake).nonlocals["others"]]
    assert no_op.target.func not in woken  # else it would be warm, and the operator's own not


@pytest.mark.parametrize("func", [torch.mm, torch.ops.aten.mm, lambda: 1, torch.nn.Linear(2, 2)])
def test_anything_else_is_compared_with_an_empty_call_on_the_same_arguments(func):
    target = Target(func, (((1, 2), {"out": 3}),))
    no_op = overhead.no_op(target)
    assert no_op.words == "an empty Python call"
    assert no_op.target.sets is target.sets
    assert no_op.target.func(1, 2, out=3) is None


@needs_native
@pytest.mark.parametrize("cache_state", ["warm", "cold"])
def test_a_busy_wait_of_known_length_is_measured_as_that(cache_state):
    """Loose, since other work may share this machine; scripts/bench_timing.py holds the bar."""
    spin = native.csrc("harness").spin
    plan = Plan(num_iters=11, cache=cache_state)
    best = min(abs(measure(spin, (500.0,), plan=plan)[1] - 500.0) for _ in range(3))
    assert best < 25.0


def test_a_crowded_machine_is_given_way_only_where_that_helps(monkeypatch):
    given, wakes = [], ["wake"] * 4
    monkeypatch.setattr(preemption, "give_way", lambda: given.append("way"))

    def prepared(us, hit, flush):
        given.clear()
        samples = Samples()
        samples.add(Reading([us, us], [False, hit]))
        preparation = Preparation(flush, lambda: given.append("wake"))
        preparation.learn(samples)
        preparation()
        return given

    assert prepared(20.0, False, None) == []
    assert prepared(2000.0, False, None) == []
    assert prepared(20.0, True, None) == []
    assert prepared(2000.0, True, None) == ["way", *wakes]
    assert prepared(20.0, False, lambda: given.append("flush")) == ["flush", *wakes]
    assert prepared(20.0, True, lambda: given.append("flush")) == ["flush", "way", *wakes]


@pytest.mark.skipif(preemption.resource is None, reason="needs getrusage")
def test_switches_are_those_of_this_thread():
    before = preemption.switches()
    assert isinstance(before, int)
    for _ in range(1000):
        preemption.give_way()
    assert preemption.switches() >= before


def test_without_getrusage_nothing_is_seen(monkeypatch):
    monkeypatch.setattr(preemption, "resource", None)
    assert preemption.switches() == 0


needs_eviction = pytest.mark.skipif(
    cache._evict() is None,
    reason="cache lines cannot be dropped here: no compiler or no instruction",
)
_MIB = 1 << 20


@needs_eviction
def test_known_tensors_are_dropped_and_large_ones_walked():
    x = torch.ones(1000)
    some = cache.policy("cold", "cpu", [x])
    assert some.words.startswith("dropped 1 tensors (3.9 KiB)")
    assert some.thorough.words.startswith("walked through")
    assert cache.policy("cold", "cpu", []).thorough is None
    cached = arch.host().last_level_cache_bytes or cache._UNKNOWN_CACHE
    assert cache.policy("cold", "cpu", [torch.empty(cached, dtype=torch.uint8)]).thorough is None


def _read_ns(tensor, evict=None):
    """Best time of a walk through a tensor, in nanoseconds."""
    best = float("inf")
    for _ in range(50):
        if evict is not None:
            evict(tensor)
        began = time.perf_counter_ns()
        native.csrc("harness").flush(tensor)
        best = min(best, time.perf_counter_ns() - began)
    return best


@needs_eviction
def test_dropped_lines_have_to_come_from_memory_again():
    # Small enough for the L2 and for one thread: no other process's turn is in the best of fifty.
    small = torch.ones(128 * 1024, dtype=torch.uint8)
    assert _read_ns(small, cache._evict()) > 1.5 * _read_ns(small)


@needs_eviction
def test_results_are_dropped_too_whatever_holds_them(monkeypatch):
    dropped = []
    monkeypatch.setattr(cache, "_evict", lambda: dropped.append)
    policy = cache.policy("cold", "cpu", [torch.ones(10)])
    one, two = torch.ones(3), torch.ones(2)
    policy.after({"a": one, "b": [two, torch.eye(3).to_sparse(), None]})
    policy.after(None)
    policy.after(one)
    assert [each.data_ptr() for each in dropped] == [t.data_ptr() for t in (one, two, one)]


def _chain(count):
    """The first of ``count`` objects, each known to the one before it alone, in no order of memory.

    From a cache a step takes 20 ns, from memory 100 ns and more: nothing can be asked for ahead.
    """
    links = [[None] for _ in range(count)]
    random.Random(0).shuffle(links)
    for link, following in itertools.pairwise(links):
        link[0] = following
    return links[0]


def _walk(link):
    while link is not None:
        (link,) = link


@needs_eviction
def test_data_that_cannot_be_found_is_found_out():
    known, hidden = torch.ones(64), _chain(30_000)

    def kernel():
        known.add_(1.0)
        _walk(hidden)

    flush = cache.policy("cold", "cpu").before
    cold_us = min(WallClock().time([Target(kernel)], 9, flush)[0].us)
    for _ in range(5):
        _, us = measure(kernel, plan=Plan(budget_s=0.3, controls=False))
        if us > cold_us / 2:
            break
    assert us > cold_us / 2  # found out, or neighbours kept the caches cold all the while
    anew = any("measured anew" in note for note in us.notes)
    assert us.policy.startswith("walked through" if anew else "dropped 1 tensors")


@needs_eviction
def test_data_that_is_found_needs_no_walk():
    table, index = torch.ones(_MIB), torch.randint(0, _MIB, (400_000,))
    _, us = measure(torch.take, (table, index), plan=Plan(budget_s=0.3, controls=False))
    assert us.policy.startswith("dropped 2 tensors")
    assert not any("measured anew" in note for note in us.notes)


@needs_eviction
def test_heavy_code_that_went_cold_is_not_taken_for_hidden_data():
    """Guards and wrapper of a compiled function cost hundreds of us from memory, and no data."""
    mix = torch.compile(lambda *xs: sum(x * 2.0 for x in xs), backend="eager", dynamic=True)
    xs = [torch.ones(8 + at)[:8] for at in range(8)]
    _, us = measure(mix, xs, plan=Plan(budget_s=0.3, controls=False))
    assert us.policy.startswith("dropped 8 tensors")
    assert not any("measured anew" in note for note in us.notes)
