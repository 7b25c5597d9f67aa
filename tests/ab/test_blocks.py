"""Many rounds of a case as one result that still knows its rounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optest.ab.blocks import merged, of_timing
from optest.store import Store
from optest.store.records import Planned, Result, RunFacts

CASE = Planned("t.py::f[m=1]", "t.py", "f")


def timing(*samples, **more):
    middle = sorted(samples)[len(samples) // 2] if samples else None
    return {
        "median_us": middle,
        "samples_us": list(samples),
        "n": len(samples) + 1,
        "dropped": 1,
        "calls": len(samples) + 3,
        "contended": False,
        "notes": [],
        "clock": "wall",
        **more,
    }


def result(status="passed", **row):
    reason = "" if status == "passed" else "why"
    return Result(CASE, status, reason, seconds=1.0, row=row)


ROUNDS = [
    result(gfx="cpu", us=timing(1.0, 2.0, 9.0), tflops=5.0, n=3),
    result(gfx="cpu", us=timing(3.0, 4.0, notes=["x"]), tflops=7.0, n=4),
    result(gfx="cpu", us=timing(8.0, contended=True, notes=["x"]), tflops=6.0, n=5),
]


def test_samples_are_all_there_and_their_blocks_too():
    us = merged(ROUNDS).row["us"]
    assert us["samples_us"] == [1.0, 2.0, 9.0, 3.0, 4.0, 8.0]
    assert us["blocks"] == [3, 2, 1]
    assert of_timing(us) == [[1.0, 2.0, 9.0], [3.0, 4.0], [8.0]]


def test_figures_are_those_of_all_samples():
    us = merged(ROUNDS).row["us"]
    assert (us["median_us"], us["min_us"], us["max_us"]) == (3.5, 1.0, 9.0)
    assert us["mean_us"] == pytest.approx(27 / 6)
    assert (us["n"], us["dropped"], us["calls"]) == (9, 3, 15)
    assert us["notes"] == ["x"]
    # Of six samples the 95 % interval of the median is from the least to the largest.
    assert us["ci_us"] == [1.0, 9.0]


@pytest.mark.parametrize(("contended", "expected"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_burst_of_other_work_in_one_round_spoils_no_result(contended, expected):
    rounds = [result(us=timing(1.0, contended=n < contended)) for n in range(3)]
    assert merged(rounds).row["us"]["contended"] is expected


def test_numbers_are_medians_of_rounds_and_all_else_is_the_last_ones():
    row = merged(ROUNDS).row
    assert list(row) == ["gfx", "us", "tflops", "n"]
    assert (row["gfx"], row["tflops"], row["n"]) == ("cpu", 6.0, 5)
    assert merged(ROUNDS).seconds == 3.0


def test_it_began_with_the_first_round_and_what_any_of_them_said_is_kept_once():
    said = [
        {"started": 5.0, "findings": [{"kind": "alias"}], "left": ["x"]},
        {"started": 6.0, "findings": [{"kind": "late"}, {"kind": "alias"}], "left": ["y", "x"]},
        {"started": 7.0},
    ]
    made = merged([replace(each, **more) for each, more in zip(ROUNDS, said, strict=True)])
    assert made.started == 5.0
    assert (made.findings, made.left) == ([{"kind": "alias"}, {"kind": "late"}], ["x", "y"])


def test_a_round_without_a_time_keeps_its_place():
    """Else the third block of one side would be held against the second of the other."""
    rounds = [ROUNDS[0], result(us=None), ROUNDS[2]]
    us = merged(rounds).row["us"]
    assert us["blocks"] == [3, 0, 1]
    assert of_timing(us) == [[1.0, 2.0, 9.0], [], [8.0]]


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("status", ["failed", "error", "crashed", "hung"])
def test_one_bad_round_makes_it_bad(at, status):
    rounds = list(ROUNDS)
    rounds[at] = result(status, us=None)
    assert (merged(rounds).status, merged(rounds).reason) == (status, "why")


def test_a_timing_of_a_plain_run_is_one_block():
    assert of_timing(timing(1.0, 2.0)) == [[1.0, 2.0]]


def test_a_store_gives_the_blocks_back(tmp_path):
    whole = merged(ROUNDS)
    with Store.open(f"sqlite:///{tmp_path}/s.db") as store:
        run = store.begin(RunFacts())
        store.plan(run, [CASE])
        store.record(run, whole)
        (back,) = store.results(run)
    assert of_timing(back.row["us"]) == of_timing(whole.row["us"])
