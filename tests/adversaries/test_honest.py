"""Honest kernels, awkward ones above all: full guards find nothing, and call them few times."""

from __future__ import annotations

import pytest
import torch
from honest import declared, habits, inputs, outputs, suite
from honest.record import always, plain

from optest import native, ops

HONEST = [honest for room in (suite, outputs, declared, inputs, habits) for honest in room.HONEST]
MOST_CALLS, MOST_REFERENCES = 12, 2


class Watch:
    """Counts the calls of each candidate of a case."""

    def __init__(self):
        self.counts = []

    def __call__(self, kernel):
        self.counts.append(0)
        at = len(self.counts) - 1

        def counted(*args, **kwargs):
            self.counts[at] += 1
            return kernel(*args, **kwargs)

        return counted


def cases():
    return [
        pytest.param(honest, mode, id=f"{honest.name}-{mode}")
        for honest in HONEST
        for mode in honest.modes
        # Of how inputs are made and results look, timing sees the same as checking.
        if mode == "check" or honest not in (*inputs.HONEST, *outputs.HONEST)
    ]


@pytest.mark.parametrize(("honest", "mode"), cases())
def test_nothing_is_found(honest, mode, make_session):
    if honest in suite.HONEST and not native.available():
        pytest.skip(str(native.why_not()))
    if honest.name == "inductor" and not ops.inductor.available():
        pytest.skip("inductor has no compiler here")
    recorded = make_session(mode)
    recorded.session.guards = "full"
    watch = Watch()
    honest.run(watch)
    (event,) = recorded.finished()
    assert event["findings"] == []
    assert event["status"] == "passed", event["reason"]
    if mode == "check":
        # Each candidate is made anew in the second pass.
        assert sum(watch.counts) <= MOST_CALLS * len(watch.counts) / MOST_REFERENCES


def test_full_guards_run_the_reference_once_more_and_no_other_candidate(make_session):
    references, watch = [], Watch()

    def run_torch(x):
        references.append(1)
        return x.exp()

    make_session("check").session.guards = "full"
    row = plain(always(torch.exp), run_torch)(watch)
    assert row.status == "passed"
    assert len(references) == MOST_REFERENCES
    assert len(watch.counts) == MOST_REFERENCES  # one candidate in each of two passes
    assert sum(watch.counts) <= MOST_CALLS


def test_no_two_have_one_name():
    names = [honest.name for honest in HONEST]
    assert len(set(names)) == len(names)
