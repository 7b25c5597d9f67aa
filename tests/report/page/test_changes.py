"""Change points: found where a series moved, silent where it only shook."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from optest.report import changes as module
from optest.report.changes import changes


def noisy(levels, noise, seed):
    draws = random.Random(seed)
    return [level * math.exp(draws.gauss(0.0, noise)) for level in levels]


def test_a_step_is_found_where_it_is_with_the_levels_around_it():
    series = [100.0, 101.0, 99.0, 100.0, 100.5, 120.0, 119.0, 121.0, 120.0]
    (found,) = changes(series)
    assert found.at == 5
    assert found.before == pytest.approx(100.1, rel=1e-3)  # geometric means, by hand
    assert found.after == pytest.approx(120.0, rel=1e-3)
    assert found.ratio == pytest.approx(1.1988, rel=2e-3)


def test_there_and_back_is_two_changes():
    series = [10.0] * 6 + [12.0] * 6 + [10.0] * 6
    assert [(each.at, round(each.ratio, 3)) for each in changes(series)] == [
        (6, 1.2),
        (12, 0.833),
    ]


def test_a_small_step_beside_a_large_one_is_joined_and_the_large_one_stays():
    (found,) = changes([100.0] * 10 + [101.2] * 10 + [130.0] * 10)
    assert found.at == 20
    assert found.before == pytest.approx(100.6, rel=1e-3)
    assert found.after == pytest.approx(130.0)


@pytest.mark.parametrize(
    "series",
    [
        [100.0],
        [100.0, 130.0, 100.0],
        [100.0] * 30,
        [100.0] * 5 + [101.0] * 5,
        [100.0] * 15 + [101.0] * 15,
        [100.0] * 9 + [150.0],
        [100.0] * 5 + [150.0] + [100.0] * 5,
    ],
    ids=["one", "too few", "flat", "1 %", "1 %, long", "the last run alone", "an outlier"],
)
def test_no_change_is_said_of(series):
    assert changes(series) == []


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.08])
@pytest.mark.parametrize("length", [5, 8, 12, 30])
def test_noise_is_rarely_called_a_change(length, noise):
    called = sum(bool(changes(noisy([50.0] * length, noise, seed))) for seed in range(300))
    assert called <= 21  # 7 % of 300: the docstring's 5 % with room for the draw


@pytest.mark.parametrize(("step", "noise"), [(1.1, 0.01), (0.9, 0.01), (1.3, 0.03)])
def test_a_step_well_above_the_noise_is_nearly_always_found(step, noise):
    levels = [50.0] * 10 + [50.0 * step] * 10
    found = [changes(noisy(levels, noise, seed)) for seed in range(100)]
    exact = sum(len(each) == 1 and abs(each[0].at - 10) <= 1 for each in found)
    assert exact >= 95


@pytest.mark.parametrize("seed", range(12))
def test_no_other_cut_is_cheaper(seed):
    """Against every possible cut, tried one by one."""
    draws = random.Random(seed)
    logs = [draws.gauss(draws.choice((0.0, 0.3)), 0.05) for _ in range(9)]
    penalty = 0.02

    def cost(starts):
        ends = [*starts[1:], len(logs)]
        total = penalty * (len(starts) - 1)
        for begin, end in zip(starts, ends, strict=True):
            part = logs[begin:end]
            level = sum(part) / len(part)
            total += sum((value - level) ** 2 for value in part)
        return total

    every = [
        (0, *cuts) for count in range(5) for cuts in itertools.combinations(range(2, 8), count)
    ]
    allowed = [
        starts
        for starts in every
        if all(b - a >= 2 for a, b in itertools.pairwise([*starts, len(logs)]))
    ]
    best = min(allowed, key=cost)
    assert module._segments(logs, penalty) == list(best)
