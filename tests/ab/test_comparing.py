"""What the page says of both sides, from results made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optest.ab.comparing import compared
from optest.ab.outcome import Outcome
from optest.ab.revision import Revision
from optest.store.records import Place, Planned, Result, RunFacts

ROUNDS, CALLS = 12, 20
HERE = Place("host", "cpu", "a CPU")


def result(m, us=100.0, *, status="passed", seed=0, clock="wall", drift=0.0):
    planned = Planned(f"t.py::f[m={m}]", "t.py", "f", {"m": m})
    if status != "passed":
        return Result(planned, status, "why", place=HERE)
    generator = np.random.default_rng((m, seed))
    slower = 1.0 + drift * np.repeat(np.arange(ROUNDS), CALLS)
    samples = (us * slower * generator.normal(1.0, 0.01, ROUNDS * CALLS)).tolist()
    timing = {
        "median_us": float(np.median(samples)),
        "samples_us": samples,
        "blocks": [CALLS] * ROUNDS,
        "clock": clock,
    }
    return Result(planned, status, row={"cpp us": timing}, place=HERE)


def outcome(base, head):
    facts = [RunFacts(arguments={"ab": {"pair": "p", "side": s}}) for s in ("base", "head")]
    revisions = (Revision("main", "a" * 40, "main"), Revision("b" * 12, "b" * 40))
    return Outcome(revisions, ("r1", "r2"), (facts[0], facts[1]), (base, head))


def verdicts(made):
    return [str(line.verdict) for line in made.lines]


def test_a_change_is_seen_under_a_drift_ten_times_as_large_and_none_where_there_is_none():
    base = [result(1, 100.0, drift=0.03), result(2, 100.0, drift=0.03)]
    head = [result(1, 103.0, seed=1, drift=0.03), result(2, 100.0, seed=1, drift=0.03)]
    made = compared(outcome(base, head), 0.05)
    assert verdicts(made) == ["slower", "same"]
    assert made.exit_code == 0  # 3 % is within the threshold
    assert compared(outcome(base, head), 0.02).exit_code == 1


def test_sides_are_called_by_revision_and_run():
    made = compared(outcome([result(1)], [result(1, seed=1)]), 0.05)
    assert made.base == "main (aaaaaaaaaaaa), run r1"
    assert made.head == "bbbbbbbbbbbb, run r2"


def test_an_op_test_that_is_all_new_is_no_mistake():
    made = compared(outcome([], [result(1), result(2)]), 0.05)
    assert verdicts(made) == ["new", "new"]
    assert made.exit_code == 0


@pytest.mark.parametrize(
    ("base", "head", "verdict", "code"),
    [
        ("passed", "error", "now wrong", 1),
        ("error", "passed", "now right", 0),
        ("crashed", "hung", "still wrong", 0),
    ],
)
def test_what_cannot_run_is_wrong(base, head, verdict, code):
    made = compared(outcome([result(1, status=base)], [result(1, status=head)]), 0.05)
    assert (set(verdicts(made)), made.exit_code) == ({verdict}, code)


def test_what_head_was_run_under_is_held_against_what_base_was():
    both = outcome([result(1)], [result(1, seed=1)])
    base, head = both.facts
    head = replace(head, environment={"OMP_NUM_THREADS": "1"}, optest="9.9")
    made = compared(replace(both, facts=(replace(base, optest="9.8"), head)), 0.05)
    assert made.differences == ["OMP_NUM_THREADS: not set, then 1"]
    assert any("optest: 9.8, then 9.9" in note for note in made.notes)


def test_a_change_of_the_clock_is_said_and_does_not_cost_the_page():
    made = compared(outcome([result(1)], [result(1, seed=1, clock="event")]), 0.05)
    assert "clock" in " ".join(made.lines[0].notes)
