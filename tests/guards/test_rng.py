"""The generators that a candidate seeds or draws from."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from optest.guards.rng import Generators

SEEDS = {
    "manual_seed": lambda: torch.manual_seed(99),
    "the generator's own": lambda: torch.default_generator.manual_seed(99),
    "seed()": lambda: torch.seed(),
}
DRAWS = {
    "torch": (lambda: torch.rand(3), "torch"),
    "torch, in place": (lambda: torch.empty(3).normal_(), "torch"),
    "numpy": (lambda: np.random.rand(3), "numpy"),
    "numpy, seeded": (lambda: np.random.seed(5), "numpy"),
    "random": (lambda: random.random(), "random"),
    "random, seeded": (lambda: random.seed(5), "random"),
    "two": (lambda: (torch.rand(3), random.random()), "torch and random"),
    "all": (lambda: (torch.rand(3), np.random.rand(3), random.random()), "numpy and random"),
}
LEFT_ALONE = {
    "nothing": lambda: None,
    "a generator of its own": lambda: torch.rand(3, generator=torch.Generator().manual_seed(1)),
    "the same of NumPy's": lambda: np.random.default_rng(1).random(3),
    "the same of Python's": lambda: random.Random(1).random(),
    "given back": lambda: _given_back(),
}


def _given_back():
    with torch.random.fork_rng(devices=[]):
        torch.rand(3)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(1)
    np.random.seed(1)
    np.random.rand(3)  # within a block of its numbers, a draw moves the place in it alone
    random.seed(1)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("act", SEEDS.values(), ids=SEEDS)
def test_seeding_is_a_finding_whatever_is_declared(act, deterministic):
    """After it, every input that the test draws is a number that the candidate knows."""
    before = Generators.now()
    act()
    finding = before.finding(deterministic=deterministic)
    assert finding is not None
    assert (finding.guard, finding.declarable) == ("random state", False)
    assert f"seeded torch's generator with {torch.initial_seed()}" in finding.evidence


@pytest.mark.parametrize(("act", "named"), DRAWS.values(), ids=DRAWS)
def test_drawing_is_a_finding_unless_it_is_declared(act, named):
    before = Generators.now()
    act()
    finding = before.finding(deterministic=True)
    assert finding is not None
    assert finding.evidence.endswith(f"{named}")
    assert (finding.guard, finding.declarable) == ("random state", True)
    assert before.finding(deterministic=False) is None


@pytest.mark.parametrize("act", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_what_leaves_the_global_generators_alone_is_none(act):
    before = Generators.now()
    act()
    assert before.finding(deterministic=True) is None


def test_put_back_all_three_draw_again_what_they_drew():
    """What a test draws next would depend on how often its candidate was called."""
    draw = lambda: (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random())
    torch.rand(5)  # not at the beginning of a seed
    before = Generators.now()
    first = draw()
    before.put_back()
    assert draw() == first
    before.put_back()
    assert before.finding(deterministic=True) is None


def test_put_back_after_seeding_the_seed_is_the_one_before():
    before = Generators.now()
    torch.manual_seed(99)
    before.put_back()
    assert torch.initial_seed() == 1
    assert before.finding(deterministic=True) is None
