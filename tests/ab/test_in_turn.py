"""From blocks made in turn, what changed; blocks of one side alone say nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optest.compare import in_turn
from optest.compare.statistics import benjamini_hochberg, of_change, paired_change
from optest.store.records import RunFacts

ROUNDS, CALLS = 12, 30


def blocks(generator, us, drift):
    """Blocks on a machine that has become slower by ``drift`` at each."""
    return [us * slower * generator.normal(1.0, 0.02, CALLS) for slower in drift]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((2, 1), [[1.0, 2.0], [3.0]]), ((0, 3), [[], [1.0, 2.0, 3.0]]), ((), [[1.0, 2.0, 3.0]])],
)
def test_samples_are_cut_where_blocks_end(counts, expected):
    assert in_turn.split([1.0, 2.0, 3.0], counts) == expected


@pytest.mark.parametrize("empty", [[], [0.0], [-1.0], [math.nan], [math.inf]])
def test_a_block_that_one_side_lacks_counts_on_neither(empty):
    """Held against its neighbour's partner, it would shift all that follow by one."""
    base = [[10.0], [11.0], [12.0], [13.0], [14.0]]
    head = [[20.0], empty, [24.0], [26.0], [28.0]]
    change = in_turn.changes([base], [head])[0]
    assert change.ratio == pytest.approx(2.0)
    kept = paired_change([base[n] for n in (0, 2, 3, 4)], [head[n] for n in (0, 2, 3, 4)])
    assert change == kept


def test_nothing_in_common_is_nothing_known():
    change = in_turn.changes([[[1.0], []]], [[[], [1.0]]])[0]
    assert math.isnan(change.ratio)
    assert (change.low, change.high, change.p) == (0.0, math.inf, 1.0)


def test_drift_that_both_sides_share_is_no_change_and_a_change_under_it_is_found():
    """The machine becomes 40 % slower meanwhile; a plain ratio of medians knows no way out."""
    generator = np.random.default_rng(7)
    drift = np.linspace(1.0, 1.4, ROUNDS)
    count = 200
    same = [blocks(generator, 100.0, drift) for _ in range(2 * count)]
    slower = [blocks(generator, 103.0, drift) for _ in range(count)]
    alarms = _called(in_turn.changes(same[:count], same[count:]))
    found = _called(in_turn.changes(same[:count], slower))
    assert alarms <= 0.02 * count
    assert found >= 0.8 * count


def _called(changes):
    adjusted = benjamini_hochberg(changes.p)
    return sum(
        of_change(changes[n].ratio, changes[n].interval, float(p), threshold=0.05).changed
        for n, p in enumerate(adjusted)
    )


@pytest.mark.parametrize(
    ("arguments", "pair"),
    [({"ab": {"pair": "x"}}, "x"), ({"ab": {}}, ""), ({"ab": "x"}, ""), ({}, "")],
)
def test_what_was_measured_in_turn_says_so(arguments, pair):
    assert in_turn.pair_of(RunFacts(arguments=arguments)) == pair
