"""A candidate on changed inputs: does its result follow them?"""

from __future__ import annotations

import pytest
import torch

from optest.guards import memoised
from optest.tensors import Snapshot, tensors_in


def look(func, *args):
    """As after a first call, as a case makes it."""
    snapshot = Snapshot(tensors_in(func, args))
    data = func(*args)
    return memoised.look(func, (args, {}), snapshot, data)


def by_pointer():
    kept = {}
    return lambda x: kept.setdefault(x.data_ptr(), x * 2)


def by_shape():
    kept = {}
    return lambda x: kept.setdefault(x.shape, x * 2).clone()


def once_into(out):
    done = []

    def kernel(x):
        if not done:
            done.append(out.copy_(x * 2).clone())
        else:
            out.copy_(done[0])

    return kernel


def in_place_by_shape():
    kept = {}

    def kernel(x, y):
        x.copy_(kept.setdefault(x.shape, x + y))

    return kernel


MEMOISED = {
    "its result, by the pointer": lambda: (by_pointer(), torch.randn(64)),
    "a copy of it, by the shape": lambda: (by_shape(), torch.randn(64)),
    "into the caller's output": lambda: (once_into(torch.zeros(64)), torch.randn(64)),
    "in place": lambda: (in_place_by_shape(), torch.randn(64), torch.randn(64)),
}
HONEST = {
    "computes": lambda: (lambda x: x * 2, torch.randn(64)),
    "into the caller's output": lambda: (
        lambda x, out: torch.mul(x, 2, out=out),
        *(torch.randn(64), torch.zeros(64)),
    ),
    "in place": lambda: (lambda x, y: x.add_(y), torch.randn(64), torch.randn(64)),
    "a result that does not vary": lambda: (lambda x: torch.zeros(64), torch.randn(64)),
    "a small result": lambda: (lambda x: (x > 0).all(), torch.randn(64)),
}


@pytest.mark.parametrize("make", MEMOISED.values(), ids=MEMOISED)
def test_answers_that_are_remembered_are_found(make):
    finding, _ = look(*make())
    assert finding is not None
    assert (finding.guard, finding.declarable) == ("memoised", False)


@pytest.mark.parametrize("make", HONEST.values(), ids=HONEST)
def test_answers_that_follow_are_none(make):
    assert look(*make()) == (None, [])


@pytest.mark.parametrize("make", [*MEMOISED.values(), *HONEST.values()])
def test_inputs_and_outputs_are_given_back(make):
    """The next repeated call would be compared with a first one on other inputs."""
    func, *args = make()
    snapshot = Snapshot(tensors_in(func, args))
    data = func(*args)
    written = {id(tensor) for tensor in snapshot.changed()}
    memoised.look(func, (tuple(args), {}), snapshot, data)
    assert {id(tensor) for tensor in snapshot.changed()} <= written


def test_what_could_not_be_looked_at_is_noted():
    """A case without a floating-point input is unguarded here, not passed."""
    finding, notes = look(lambda x: x * 2, torch.arange(64))
    assert finding is None
    assert "no floating-point input" in notes[0]


def test_a_candidate_that_raises_on_changed_inputs_is_noted():
    x = torch.linspace(1, 2, 64)
    expected = float(x.sum())

    def kernel(x):
        if float(x.sum()) != expected:
            raise ValueError("not normalised")
        return x * 2

    finding, notes = look(kernel, x)
    assert finding is None
    assert "ValueError" in notes[0]
    assert float(x.sum()) == expected


def test_the_words_are_those_of_the_control_call():
    finding, _ = look(*MEMOISED["its result, by the pointer"]())
    assert finding is not None
    assert "remembers its answers" in finding.evidence
