"""The arithmetic of a comparison, against exact values, tables and simulations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from optest import stats
from optest.compare import padded, student
from optest.compare.statistics import (
    DRIFT,
    Verdict,
    benjamini_hochberg,
    geometric_mean,
    mann_whitney,
    of_change,
    paired_change,
    unpaired_change,
    unpaired_changes,
)


def exact_mann_whitney(base, head):
    """Two-sided p by going through every way to deal the pooled values to the two sides."""
    pooled = [*base, *head]

    def u(chosen):
        rest = [v for n, v in enumerate(pooled) if n not in chosen]
        mine = [pooled[n] for n in chosen]
        return sum((a > b) + 0.5 * (a == b) for a in mine for b in rest)

    centre = len(base) * len(head) / 2
    seen = abs(u(set(range(len(base), len(pooled)))) - centre)
    ways = list(itertools.combinations(range(len(pooled)), len(head)))
    return sum(abs(u(set(way)) - centre) >= seen - 1e-9 for way in ways) / len(ways)


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]),
        ([1, 2, 3, 4, 5, 6, 7], [2.5, 3.5, 8, 9, 10, 11, 12]),
        ([1, 3, 5, 7, 9, 11], [2, 4, 6, 8, 10, 12]),
        ([1, 1, 2, 2, 3, 3, 4], [2, 2, 3, 3, 4, 4, 5]),
        ([5, 5, 5, 5, 6], [5, 6, 6, 6, 7, 7, 7, 7]),
        ([3, 1, 4, 1, 5, 9, 2, 6], [8, 9, 7, 9, 3, 2, 3, 8]),
    ],
)
def test_mann_whitney_is_near_the_exact_p_also_with_ties(base, head):
    exact = exact_mann_whitney(base, head)
    assert mann_whitney(base, head) == pytest.approx(exact, abs=0.035)
    assert mann_whitney(head, base) == pytest.approx(mann_whitney(base, head), abs=1e-12)
    if exact < 0.05:  # where it matters, it must not claim more than is so
        assert mann_whitney(base, head) >= exact


def test_mann_whitney_of_a_textbook():
    # U = 0 of 5 and 4 (turnaround of all): mean 10, variance 5 * 4 * 10 / 12, continuity 0.5.
    expected = math.erfc((10 - 0.5) / math.sqrt(5 * 4 * 10 / 12) / math.sqrt(2))
    assert mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9]) == pytest.approx(expected)


@pytest.mark.parametrize("sides", [([], [1.0, 2.0]), ([1.0], []), ([2.0] * 9, [2.0] * 9)])
def test_mann_whitney_claims_nothing_where_nothing_differs(sides):
    assert mann_whitney(*sides) == 1.0


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    # Columns 0.05 and 0.01, two-sided, of the printed tables of Student's t.
    [
        (12.706, 1, 0.05),
        (4.303, 2, 0.05),
        (5.841, 3, 0.01),
        (2.776, 4, 0.05),
        (4.032, 5, 0.01),
        (2.262, 9, 0.05),
        (3.169, 10, 0.01),
        (2.750, 30, 0.01),
    ],
)
def test_student_is_the_printed_table(t, freedom, p):
    assert student.two_sided(t, freedom) == pytest.approx(p, rel=2e-3)
    assert student.two_sided(-t, freedom) == student.two_sided(t, freedom)
    assert student.quantile(p, freedom) == pytest.approx(t, rel=1e-3)


def test_student_knows_its_ends():
    assert student.two_sided(0.0, 7) == 1.0
    assert 0.0 <= student.two_sided(1e9, 7) < 1e-12
    with pytest.raises(ValueError, match="freedom=0"):
        student.two_sided(1.0, 0)


def test_benjamini_hochberg_worked_by_hand():
    # In order 0.001 0.008 0.039 0.041 0.042; times 5 over the rank: .005 .02 .065 .05125 .042;
    # each the least of itself and those behind it.
    p = [0.041, 0.001, 0.042, 0.008, 0.039]
    assert benjamini_hochberg(p) == pytest.approx([0.042, 0.005, 0.042, 0.02, 0.042])
    assert benjamini_hochberg([]).size == 0
    assert benjamini_hochberg([0.7, 0.9]) == pytest.approx([0.9, 0.9])


def test_geometric_mean_of_inverses_is_one_and_its_interval_holds_it():
    mean = geometric_mean([2.0, 0.5, 4.0, 0.25])
    assert mean.ratio == pytest.approx(1.0)
    assert mean.low < 1.0 < mean.high
    assert mean.count == 4


def test_geometric_mean_interval_is_that_of_a_mean_of_many():
    generator = np.random.default_rng(3)
    logs = generator.normal(0.02, 0.05, 10_000)
    mean = geometric_mean(np.exp(logs))
    half = 1.96 * logs.std() / 100
    assert math.log(mean.low) == pytest.approx(logs.mean() - half, abs=0.15 * half)
    assert math.log(mean.high) == pytest.approx(logs.mean() + half, abs=0.15 * half)


def test_what_all_cases_share_is_not_averaged_out():
    many = np.exp(np.random.default_rng(3).normal(0.0, 0.01, 5_000))
    mean = geometric_mean(many, shared=0.01)
    assert mean.high / mean.ratio == pytest.approx(math.exp(1.96 * 0.01), rel=1e-3)
    assert mean.ratio / mean.low == pytest.approx(math.exp(1.96 * 0.01), rel=1e-3)


def test_geometric_mean_of_one_says_nothing_of_others():
    assert geometric_mean([1.25]).ratio == pytest.approx(1.25)
    assert (geometric_mean([1.25]).low, geometric_mean([1.25]).high) == (0.0, math.inf)


@pytest.mark.parametrize("ratios", [[], [1.0, 0.0], [1.0, -2.0], [math.nan]])
def test_geometric_mean_refuses_what_has_none(ratios):
    with pytest.raises(ValueError, match="above zero"):
        geometric_mean(ratios)


@pytest.mark.parametrize(("of_base", "of_head"), [(30, 30), (9, 12), (31, 200), (10, 500)])
def test_without_drift_the_interval_is_that_of_the_plain_bootstrap(of_base, of_head):
    generator = np.random.default_rng(of_head)
    base, head = generator.lognormal(3, 0.1, of_base), generator.lognormal(3.05, 0.1, of_head)
    change = unpaired_change(base, head, drift=0.0)
    low, high = stats.median_ratio_interval(list(head), list(base))
    assert change.ratio == pytest.approx(np.median(head) / np.median(base), rel=1e-12)
    # Widened where neighbours look alike, never narrowed but for the error of resampling.
    assert change.low <= low * 1.006
    assert change.high >= high * 0.994
    assert math.log(change.high / change.low) < 1.8 * math.log(high / low)


def test_a_pair_is_judged_alike_in_any_company():
    generator = np.random.default_rng(0)
    sides = [
        [generator.lognormal(3, 0.1, n) for n in generator.integers(1, 90, 9)] for _ in range(2)
    ]
    together = unpaired_changes(*sides, drift=0.01)
    for n, (base, head) in enumerate(zip(*sides, strict=True)):
        alone = unpaired_change(base, head, drift=0.01)
        assert together[n].ratio == pytest.approx(alone.ratio, rel=1e-12)
        assert together[n].interval == pytest.approx(alone.interval, rel=1e-9)
        assert together[n].p == pytest.approx(alone.p, rel=1e-9)


def test_drift_widens_the_interval_and_weakens_p():
    base, head = [100.0 + n % 7 / 10 for n in range(50)], [103.0 + n % 7 / 10 for n in range(50)]
    sure, unsure = unpaired_change(base, head, drift=0.0), unpaired_change(base, head, drift=0.02)
    assert sure.p < 1e-9
    assert unsure.p > 0.01
    assert unsure.high / unsure.ratio == pytest.approx(math.exp(1.96 * 0.02), rel=5e-3)


@pytest.mark.parametrize("few", [0, 1, 5])
def test_few_samples_say_nothing_of_an_interval(few):
    change = unpaired_change([10.0] * few, [20.0] * 30)
    assert change.interval == (0.0, math.inf)
    assert few == 0 or change.ratio == 2.0
    if few == 0:
        assert math.isnan(change.ratio)
        assert change.p == 1.0


def test_times_that_are_not_above_zero_give_no_number_that_looks_like_one():
    change = unpaired_change([0.0] * 30, [1.0] * 30)
    assert math.isnan(change.ratio)
    assert change.interval == (0.0, math.inf)


def test_sides_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="2 measurements against 1"):
        unpaired_changes([[1.0], [2.0]], [[1.0]])


def test_chunks_leave_no_pair_out(monkeypatch):
    monkeypatch.setattr(padded, "_ELEMENTS", 64)
    sides = [[[float(n + 1)] * (7 + n % 5) for n in range(40)] for _ in range(2)]
    assert unpaired_changes(sides[0], sides[1]).ratio == pytest.approx(np.ones(40))
    seen = np.concatenate([pair.at for pair in padded.pairs(*sides)])
    assert sorted(seen) == list(range(40))


def _run(generator, cases, samples, apart, noise=0.02):
    """Times of a run of a machine: noise, stretches that are alike, bursts, a level of its own."""
    level = generator.normal(0.0, apart, (cases, 1))
    noise = generator.normal(0.0, noise, (cases, samples))
    walk = np.cumsum(generator.normal(0.0, 0.002, (cases, samples)), axis=1)
    walk -= walk.mean(axis=1, keepdims=True)
    bursts = (generator.random((cases, samples)) < 0.03) * generator.exponential(0.5, noise.shape)
    return 100.0 * np.exp(level + noise + walk + bursts)


def _called(changes, threshold=0.05):
    adjusted = benjamini_hochberg(changes.p)
    return [
        of_change(c.ratio, c.interval, adjusted[n], threshold=threshold)
        for n, c in ((n, changes[n]) for n in range(len(adjusted)))
    ]


@pytest.mark.parametrize(("cases", "apart"), [(1, 0.007), (5, 0.007), (40, 0.007), (40, 0.03)])
def test_no_more_than_two_per_cent_of_unchanged_cases_are_called_changed(cases, apart):
    """200 comparisons of two runs of one version, each run with a level of its own."""
    generator = np.random.default_rng(cases)
    called = 0
    for _ in range(200):
        base, head = (_run(generator, cases, 40, apart) for _ in range(2))
        called += sum(verdict.changed for verdict in _called(unpaired_changes(base, head)))
    assert called <= 0.02 * 200 * cases


@pytest.mark.parametrize("cases", [1, 2, 3, 5, 10, 20])
def test_nor_on_a_machine_so_busy_that_runs_are_15_per_cent_apart(cases):
    generator = np.random.default_rng(cases)
    called = 0
    for _ in range(200):
        base, head = (_run(generator, cases, 40, 0.1, 0.09) for _ in range(2))
        called += sum(verdict.changed for verdict in _called(unpaired_changes(base, head)))
    assert called <= 0.02 * 200 * cases


@pytest.mark.parametrize("cases", [1, 2, 3, 5, 10, 20])
def test_on_a_quiet_machine_fifteen_per_cent_are_seen_in_any_company(cases):
    generator = np.random.default_rng(cases)
    seen = 0
    for _ in range(50):
        base, head = (_run(generator, cases, 40, 0.003, 0.005) for _ in range(2))
        head[0] *= 1.15
        seen += _called(unpaired_changes(base, head))[0] == Verdict.SLOWER
    assert seen >= 45


def test_a_change_that_stands_out_of_the_drift_is_called():
    generator = np.random.default_rng(8)
    base, head = (_run(generator, 40, 40, 0.007) for _ in range(2))
    head[3] *= 1.15
    head[4] /= 1.15
    found = _called(unpaired_changes(base, head))
    assert found[3] == Verdict.SLOWER
    assert found[4] == Verdict.FASTER
    assert sum(verdict.changed for verdict in found) == 2


def _blocks(generator, count, change, drift):
    """Blocks of both versions on a machine whose speed walks by ``drift`` between them."""
    level = np.cumsum(generator.normal(0.0, drift, count))
    return [
        [
            np.exp(level[n] + side + generator.normal(0, 0.006) + generator.normal(0, 0.02, 20))
            for n in range(count)
        ]
        for side in (0.0, math.log1p(change))
    ]


def test_blocks_in_turn_cancel_a_drift_that_is_larger_than_the_change():
    generator = np.random.default_rng(1)
    found = [paired_change(*_blocks(generator, 10, 0.03, drift=0.05)) for _ in range(200)]
    called = [of_change(c.ratio, c.interval, c.p, threshold=0.05) for c in found]
    assert called.count(Verdict.SLOWER) >= 160
    assert called.count(Verdict.FASTER) == 0
    assert np.median([c.ratio for c in found]) == pytest.approx(1.03, abs=0.002)


@pytest.mark.parametrize("count", [4, 6, 10, 16])
def test_blocks_of_one_version_are_called_changed_in_two_of_a_hundred_at_most(count):
    generator = np.random.default_rng(count)
    found = [paired_change(*_blocks(generator, count, 0.0, drift=0.05)) for _ in range(400)]
    called = [of_change(c.ratio, c.interval, c.p, threshold=0.05) for c in found]
    assert sum(verdict.changed for verdict in called) <= 8
    assert sum(c.low <= 1.0 <= c.high for c in found) >= 0.93 * 400


def test_one_block_spoilt_by_a_burst_spoils_no_result():
    base, head = _blocks(np.random.default_rng(2), 10, 0.05, drift=0.02)
    head[4] = head[4] * 3.0
    change = paired_change(base, head)
    assert change.ratio == pytest.approx(1.05, abs=0.01)
    assert of_change(change.ratio, change.interval, change.p, threshold=0.05) == Verdict.SLOWER


def test_blocks_with_the_same_ratio_to_the_last_digit():
    assert paired_change([[1.0]] * 5, [[1.0]] * 5).p == 1.0
    change = paired_change([[1.0]] * 5, [[2.0]] * 5)
    assert (change.ratio, change.low, change.high, change.p) == (2.0, 2.0, 2.0, 0.0)


def test_few_blocks_say_nothing():
    change = paired_change([[1.0]] * 3, [[2.0]] * 3)
    assert (change.ratio, change.interval, change.p) == (2.0, (0.0, math.inf), 1.0)
    assert math.isnan(paired_change([], []).ratio)


@pytest.mark.parametrize(
    ("base", "head", "words"),
    [
        ([[1.0]], [], "1 blocks of base, 0 of head"),
        ([[1.0]], [[]], "median nan"),
        ([[0.0]], [[1.0]], "median 0.0"),
    ],
)
def test_blocks_that_cannot_be_are_refused(base, head, words):
    with pytest.raises(ValueError, match=words):
        paired_change(base, head)


@pytest.mark.parametrize(
    ("ratio", "interval", "p", "verdict"),
    [
        (1.2, (1.1, 1.3), 0.001, "slower"),
        (0.8, (0.7, 0.9), 0.001, "faster"),
        (1.2, (1.1, 1.3), 0.02, "too noisy to say"),
        (1.02, (0.99, 1.04), 0.001, "same"),
        (1.004, (1.001, 1.008), 0.0001, "same"),
        (1.02, (1.01, 1.03), 0.02, "same"),
        (1.0, (0.94, 1.01), 0.5, "too noisy to say"),
        (1.0, (0.0, math.inf), 1.0, "too noisy to say"),
    ],
)
def test_the_rule(ratio, interval, p, verdict):
    assert of_change(ratio, interval, p, threshold=0.05) == verdict
    assert str(of_change(ratio, interval, p, threshold=0.05)) == verdict


def test_the_drift_leaves_a_change_at_the_threshold_to_be_seen():
    quiet = [100.0 + n % 9 / 50 for n in range(40)]
    change = unpaired_change(quiet, [1.05 * us for us in quiet], DRIFT)
    assert of_change(change.ratio, change.interval, change.p, threshold=0.05) == Verdict.SLOWER
