from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optest.timing.stopping import LEAST_CALLS, MOST_CALLS, Progress, Stopping, net_interval


def run(rule, us_of_call, overhead=lambda index: 0.5):
    """Calls that the rule asks for, the last one included, where time passes as told."""
    us, off = [], []
    while (count := rule.more(Progress(len(us), us, off, sum(us) / 1e6))) > 0:
        for _ in range(count):
            off.append(overhead(len(us)))
            us.append(us_of_call(len(us)))
    return len(us) + 1


def STEADY(length):
    return lambda index: length * (1 + 1e-4 * (index % 3))


@pytest.mark.parametrize(
    ("why", "budget_s", "length_us", "calls"),
    [
        ("ten at least, though all agree", 1.0, 20.0, LEAST_CALLS),
        ("ten at least, though the budget is spent", 1e-3, 2000.0, LEAST_CALLS),
        ("ten, where one call outlasts the budget by a little", 1.0, 0.4e6, LEAST_CALLS),
        ("three that agree, where ten take more than five seconds", 1.0, 1.2e6, 3),
        ("ten, where the budget allows for long calls", 20.0, 1.2e6, LEAST_CALLS),
    ],
)
def test_steady_calls(why, budget_s, length_us, calls):
    assert run(Stopping(None, budget_s), STEADY(length_us)) == calls, why


def test_long_calls_that_disagree_are_made_ten_times():
    assert run(Stopping(None, 1.0), lambda index: 1.2e6 * (1 + 0.1 * (index % 2))) == LEAST_CALLS


def test_unsteady_calls_go_on_until_the_time_is_spent():
    calls = run(Stopping(None, 0.1), lambda index: 100.0 + 37 * index % 201)
    assert 0.08e6 <= 200.0 * calls <= 0.11e6


def test_an_unsteady_no_op_counts_as_well():
    steady = run(Stopping(None, 1.0), STEADY(20.0))
    shaky = run(Stopping(None, 1.0), STEADY(20.0), lambda index: 2.0 + 0.37 * index % 4)
    assert shaky > steady


def test_there_is_an_end_to_short_calls():
    assert run(Stopping(None, 100.0), lambda index: 100.0 + 37 * index % 20011) == MOST_CALLS


@given(st.integers(1, 300), st.floats(1.0, 1e7))
def test_a_number_given_is_the_number_made(num_iters, length_us):
    assert run(Stopping(num_iters, 1e-3), STEADY(length_us)) == num_iters


@given(
    st.lists(st.floats(0.1, 2e6), min_size=1, max_size=20),
    st.floats(1e-3, 3.0),
)
def test_the_rule_ends_in_bounds(lengths, budget_s):
    made = []

    def length(index):
        made.append(lengths[index % len(lengths)])
        return made[-1]

    calls = run(Stopping(None, budget_s), length)
    assert 3 <= calls <= MOST_CALLS
    if calls > LEAST_CALLS:
        last_batch = made[-max(1, calls // 3) :]
        assert sum(made[: -len(last_batch)]) / 1e6 <= budget_s


def test_the_interval_of_a_difference_is_wider_than_that_of_either():
    kept, off = [20.0 + 0.1 * i for i in range(21)], [2.0 + 0.01 * i for i in range(21)]
    low, high = net_interval(kept, off)
    alone = net_interval(kept, [])
    assert low < 21.0 - 2.1 < high
    assert high - low > alone[1] - alone[0]
    assert net_interval([1.0, 2.0], []) == (-math.inf, math.inf)
