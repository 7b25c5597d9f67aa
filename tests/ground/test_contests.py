"""What bench_kernels holds kernels against: each contest can be made on this machine, and runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "scripts"))

from bench_kernels import FAMILIES

CONTESTS = [
    pytest.param(family, name, id=name) for family in FAMILIES for name in family.contests(1)
]


@pytest.mark.parametrize(("family", "name"), CONTESTS)
def test_it_runs_with_every_rival_but_the_compiled(family, name):
    contest = family.contests(1)[name]()
    assert contest.nbytes > 0
    contest.ours()
    for rival, each in contest.rivals.items():
        if rival != "inductor":  # a minute of compiling each
            each.call()
