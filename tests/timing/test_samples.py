from __future__ import annotations

import pytest
from told_clocks import NO_OP_US, Counted, FixedClock, ToldClock

from optest.errors import ClockError
from optest.timing import Plan, measure
from optest.timing.clock import Reading
from optest.timing.samples import Samples, net

WARM = {"cache": "warm", "controls": False}


@pytest.mark.parametrize("num_iters", [1, 2, 10, 101, None])
@pytest.mark.parametrize("us", [0.0, -1.0, 5.0, float("nan"), float("inf")])
def test_a_clock_that_does_not_follow_the_call_is_an_error_and_no_row(us, num_iters):
    with pytest.raises(ClockError):
        measure(lambda: None, plan=Plan(num_iters=num_iters, clock=FixedClock(us), **WARM))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan")])
def test_one_bad_reading_among_good_ones_is_an_error(bad):
    kernel = Counted(10.0, 11.0, 12.0, bad)
    with pytest.raises(ClockError, match="more than zero"):
        measure(kernel, plan=Plan(num_iters=9, clock=ToldClock(), **WARM))


def test_a_constant_is_an_error_also_where_the_no_op_reads_otherwise():
    with pytest.raises(ClockError, match="does not follow"):
        measure(lambda: None, plan=Plan(num_iters=20, clock=FixedClock(50.0, 1.0), **WARM))


def test_equal_readings_of_a_coarse_clock_are_none():
    clock = FixedClock(2.0, 1.0)
    clock.resolution_us = 0.5
    _, timing = measure(lambda: None, plan=Plan(num_iters=20, clock=clock, **WARM))
    assert timing == 1.0


def test_a_stopped_wall_clock_is_an_error(monkeypatch):
    monkeypatch.setattr("time.perf_counter_ns", lambda: 1234)
    with pytest.raises(ClockError, match=r"read 0\.0 us"):
        measure(lambda: None, plan=Plan(**WARM))


def test_a_mixture_is_reported_as_one():
    kernel = Counted(*[100.0] * 19, 1000.0)
    plan = Plan(num_iters=200, num_warmup=0, clock=ToldClock(), **WARM)
    _, timing = measure(kernel, plan=plan)
    assert timing == 100.0 - NO_OP_US
    assert timing.mean_us == pytest.approx(145.0 - NO_OP_US)
    assert timing.max_us == 1000.0 - NO_OP_US
    assert (timing.dropped, timing.dropped_share) == (0, 0.0)
    assert timing.n == timing.calls == kernel.calls == 200


def test_preempted_calls_are_dropped_and_counted():
    kernel = Counted(*[100.0 + i for i in range(19)], 5000.0)
    clock = ToldClock(preempted=lambda us: us == 5000.0)
    _, timing = measure(kernel, plan=Plan(num_iters=100, num_warmup=0, clock=clock, **WARM))
    assert (timing.dropped, timing.n, len(timing.samples_us)) == (5, 100, 95)
    assert timing.dropped_share == 0.05
    assert timing.max_us < 200.0
    assert not timing.contended


def test_where_most_calls_are_preempted_all_are_kept_and_it_is_said():
    kernel = Counted(100.0, 5000.0, 5001.0)
    clock = ToldClock(preempted=lambda us: us >= 5000.0)
    _, timing = measure(kernel, plan=Plan(num_iters=99, num_warmup=0, clock=clock, **WARM))
    assert timing.contended
    assert (timing.dropped, len(timing.samples_us)) == (0, 99)
    assert timing == 5000.0 - NO_OP_US
    assert "66 of 99" in timing.notes[-1]


def test_a_call_as_short_as_a_no_op_is_a_bound_and_never_zero():
    samples = Samples()
    samples.add(Reading([0.20, 0.21, 0.19], [False] * 3))
    samples.add_overhead(Reading([0.20, 0.20, 0.22], [False] * 3))
    median_us, facts = net(samples, "an empty Python call")
    assert median_us == 0.20
    assert facts["overhead_us"] == 0.0
    assert "as short as an empty Python call" in facts["notes"][0]
