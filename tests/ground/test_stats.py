from __future__ import annotations

import math
import statistics
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optest import stats

numbers = st.floats(-1e9, 1e9, allow_nan=False)
samples = st.lists(numbers, min_size=1, max_size=200)


@given(samples)
def test_median_and_mean_are_those_of_the_standard_library(values):
    assert stats.median(values) == pytest.approx(statistics.median(values), rel=1e-12, abs=1e-9)
    assert stats.mean(values) == pytest.approx(statistics.fmean(values), rel=1e-12, abs=1e-9)


@given(samples, st.floats(0, 1))
def test_quantile_is_numpy_s(values, share):
    got = stats.quantile(values, share)
    assert got == pytest.approx(float(np.quantile(values, share)), rel=1e-9, abs=1e-6)
    assert min(values) <= got <= max(values)


@given(st.lists(numbers, min_size=6, max_size=200), st.randoms())
def test_order_of_the_samples_does_not_matter(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert stats.median_interval(shuffled) == stats.median_interval(values)
    assert stats.quantile(shuffled, 0.3) == stats.quantile(values, 0.3)


def _exact_rank(count, confidence):
    """By whole numbers, without a floating-point sum: the largest k with 2 P(B < k) <= 1 - c."""
    rank = 0
    for k in range(1, count // 2 + 1):
        below = sum(math.comb(count, i) for i in range(k))
        if 2 * below <= (1 - confidence) * 2**count:
            rank = k
    return rank


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_the_interval_s_ranks_are_the_binomial_s(confidence):
    for count in range(1, 120):
        rank = _exact_rank(count, confidence)
        want = (rank - 1, count - rank) if rank else (-math.inf, math.inf)
        assert stats.median_interval(range(count), confidence) == want, count


def test_the_textbook_case():
    # n = 10 at 95 %: from the 2nd to the 9th, which covers 97.9 %.
    assert stats.median_interval([10, 20, 30, 40, 50, 60, 70, 80, 90, 100]) == (20, 90)


def test_it_covers_the_median_of_the_source_as_often_as_it_says():
    generator = np.random.default_rng(1)
    draws = generator.lognormal(sigma=1.0, size=(4000, 25))  # skewed, as times are; median 1
    hits = sum(low <= 1.0 <= high for low, high in map(stats.median_interval, draws.tolist()))
    assert 0.95 <= hits / len(draws) <= 0.97  # n = 25: ranks 8 to 18 cover 95.7 %


def test_few_samples_say_nothing_and_many_do_not_underflow():
    assert stats.median_interval([1.0] * 5) == (-math.inf, math.inf)
    assert stats.median_interval([1.0, 2, 3, 4, 5, 6]) == (1, 6)
    low, high = stats.median_interval(range(100_000))
    # Normal approximation: n/2 -+ 1.96 sqrt(n)/2
    assert low == pytest.approx(50_000 - 310, abs=2)
    assert high == pytest.approx(50_000 + 310, abs=2)


def test_half_width_is_a_share_of_the_centre():
    assert stats.relative_half_width((95.0, 105.0), 100.0) == pytest.approx(0.05)
    assert stats.relative_half_width((5.0, 5.0), 5.0) == 0.0


@pytest.mark.parametrize(
    ("interval", "centre"),
    [
        ((-math.inf, math.inf), 5.0),
        ((1.0, 2.0), 0.0),
        ((1.0, 2.0), -1.0),
        ((1.0, 2.0), math.nan),
        ((math.nan, 2.0), 1.0),
    ],
)
def test_half_width_without_a_meaning_never_looks_narrow(interval, centre):
    assert stats.relative_half_width(interval, centre) == math.inf


def test_what_cannot_be_answered_is_refused():
    for function in (stats.median, stats.mean, stats.median_interval):
        with pytest.raises(ValueError, match="no samples"):
            function([])
    with pytest.raises(ValueError, match=r"share=1\.5"):
        stats.quantile([1.0], 1.5)
    for confidence in (0.0, 1.0, 95):
        with pytest.raises(ValueError, match="confidence="):
            stats.median_interval([1.0], confidence)


def test_the_interval_of_a_ratio_of_medians_covers_it():
    random = Random(0)

    def draw(scale, count):
        return [scale * random.lognormvariate(0.0, 0.1) for _ in range(count)]

    intervals = [
        stats.median_ratio_interval(draw(1.0, 31), draw(2.0, 40), resamples=300) for _ in range(200)
    ]
    hits = sum(low <= 0.5 <= high for low, high in intervals)
    assert 0.90 <= hits / len(intervals) <= 0.99
    assert all(high - low < 0.15 for low, high in intervals)


def test_the_resampled_median_is_the_median_of_a_resample():
    # Against resampling done plainly, for an odd and for an even number of samples.
    for count in (7, 8):
        samples, random = [float(2**i) for i in range(count)], Random(0)
        plain = [stats.median(random.choices(samples, k=count)) for _ in range(20_000)]
        drawn = [stats._resampled_median(samples, random) for _ in range(20_000)]
        for share in (0.05, 0.25, 0.5, 0.75, 0.95):
            border = stats.quantile(plain, share)
            below, expected = ([value <= border for value in values] for values in (drawn, plain))
            assert stats.mean(below) == pytest.approx(stats.mean(expected), abs=0.02)


def test_the_interval_of_a_ratio_is_the_same_each_time_and_needs_six_samples():
    many, few = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], [1.0, 1.0, 1.0, 1.0, 1.0]
    assert stats.median_ratio_interval(many, many) == stats.median_ratio_interval(many, many)
    assert stats.median_ratio_interval(many, few) == (0.0, math.inf)
    assert stats.median_ratio_interval(few, many) == (0.0, math.inf)
    for bad in (([], many), (many, [])):
        with pytest.raises(ValueError, match="no samples"):
            stats.median_ratio_interval(*bad)
    with pytest.raises(ValueError, match="confidence="):
        stats.median_ratio_interval(many, many, confidence=95)
