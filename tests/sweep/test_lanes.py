"""Which unit a lane takes next, what fits beside what, and what lanes a machine has."""

from __future__ import annotations

import os
import threading

import pytest

from optest.errors import UsageError
from optest.store.records import Expected, Planned
from optest.sweep.backlog import Backlog
from optest.sweep.executor import Work
from optest.sweep.lane import Lane, core_lanes, device_lanes

MEMORY = 100
CPU = Lane("cpu")
CARD, SAME_CARD, OTHER_CARD = (
    Lane(name, device=device, device_bytes=100) for name, device in ("a0", "b0", "c1")
)


def work(name, file="a.py", seconds=0.0, peak=None, device_peak=None):
    return Work(Planned(f"{file}::{name}[]", file), Expected(seconds, peak, device_peak))


def backlog(*units, stopped=lambda: False):
    return Backlog(units, MEMORY, stopped)


def name(running):
    return running.work.planned.id.split("::")[1].removesuffix("[]")


def test_units_are_taken_in_the_order_given():
    left = backlog(work("first"), work("second", "b.py"), work("third"))
    assert [name(left.take(CPU, None)) for _ in range(3)] == ["first", "second", "third"]
    assert left.take(CPU, None) is None


@pytest.mark.parametrize(("longest", "taken"), [(1.0, "own"), (10.0, "other")])
def test_a_lane_stays_with_its_file_while_no_case_is_much_longer(longest, taken):
    left = backlog(work("other", "b.py", longest), work("own", "a.py", 0.1))
    assert name(left.take(CPU, "a.py")) == taken


def test_a_case_that_does_not_fit_waits_and_smaller_ones_go_first():
    left = backlog(work("big", peak=70), work("large", peak=40), work("small", peak=20))
    big = left.take(CPU, None)
    assert [name(big), name(left.take(CPU, None))] == ["big", "small"]
    later = []
    waiting = threading.Thread(target=lambda: later.append(left.take(CPU, None)))
    waiting.start()
    waiting.join(0.1)
    assert later == []
    left.done(big)
    waiting.join(10)
    assert name(later[0]) == "large"


def test_a_case_larger_than_the_machine_runs_and_alone():
    left = backlog(work("huge", peak=1_000), work("unknown"))
    huge = left.take(CPU, None)
    assert name(huge) == "huge"
    later = []
    waiting = threading.Thread(target=lambda: later.append(left.take(CPU, None)))
    waiting.start()
    waiting.join(0.1)
    assert later == []
    left.done(huge)
    waiting.join(10)
    assert name(later[0]) == "unknown"


@pytest.mark.parametrize(("lane", "waits"), [(SAME_CARD, True), (OTHER_CARD, False)])
def test_lanes_of_one_device_share_its_memory(lane, waits):
    stop = threading.Event()
    left = backlog(
        work("one", device_peak=60), work("two", device_peak=60), stopped=lambda: stop.is_set()
    )
    left.take(CARD, None)
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(left.take(lane, None)))
    waiting.start()
    waiting.join(0.1)
    stop.set()
    waiting.join(10)
    assert (taken == [None]) is waits


def test_neighbours_are_the_most_that_ran_at_any_time():
    left = backlog(*(work(each) for each in ("one", "two", "three", "four")))
    one, two = left.take(CPU, None), left.take(CPU, None)
    left.done(two)
    three = left.take(CPU, None)
    assert [each.neighbours for each in (one, two, three)] == [1, 1, 1]
    left.done(one)
    left.done(three)
    assert left.take(CPU, None).neighbours == 0


def test_nothing_is_taken_once_the_run_is_stopped():
    assert backlog(work("one"), stopped=lambda: True).take(CPU, None) is None


def test_cores_are_divided_among_lanes(monkeypatch):
    monkeypatch.setattr("optest.sweep.lane._usable_cores", lambda: {0, 1, 2, 3, 4})
    monkeypatch.setattr("optest.sweep.lane._first_sibling", lambda core: core % 2)
    lanes = core_lanes(2)
    assert [lane.cores for lane in lanes] == [(0, 2), (1, 3, 4)]  # siblings stay together
    assert [lane.threads for lane in lanes] == [1, 2]


def test_one_lane_is_left_as_a_plain_script_would_be():
    assert core_lanes(1) == [Lane("cpu")]


@pytest.mark.parametrize("jobs", [0, -1, 100_000])
def test_more_lanes_than_cores_are_refused(jobs):
    cores = len(os.sched_getaffinity(0))
    with pytest.raises(UsageError, match=f"--jobs {jobs}: expected 1 to {cores}"):
        core_lanes(jobs)


@pytest.mark.parametrize(
    ("hip", "environment", "expected"),
    [
        (False, {}, [("CUDA_VISIBLE_DEVICES", "0"), ("CUDA_VISIBLE_DEVICES", "1")]),
        (
            False,
            {"CUDA_VISIBLE_DEVICES": "3, GPU-ab,7"},
            [("CUDA_VISIBLE_DEVICES", "3"), ("CUDA_VISIBLE_DEVICES", "GPU-ab")],
        ),
        (True, {}, [("HIP_VISIBLE_DEVICES", "0"), ("HIP_VISIBLE_DEVICES", "1")]),
        (
            True,
            {"CUDA_VISIBLE_DEVICES": "4,5", "ROCR_VISIBLE_DEVICES": "6,7,2,3,4,5"},
            [("CUDA_VISIBLE_DEVICES", "4"), ("CUDA_VISIBLE_DEVICES", "5")],
        ),
        (
            True,
            {"HIP_VISIBLE_DEVICES": "2,5", "CUDA_VISIBLE_DEVICES": "0,1"},
            [("HIP_VISIBLE_DEVICES", "2"), ("HIP_VISIBLE_DEVICES", "5")],
        ),
    ],
)
def test_each_visible_device_is_a_lane_in_the_words_that_made_it_visible(
    hip, environment, expected
):
    lanes = device_lanes([80 << 30] * 2, hip=hip, environment=environment)
    assert [tuple(lane.environment.items()) for lane in lanes] == [(pair,) for pair in expected]
    assert {lane.device_bytes for lane in lanes} == {80 << 30}
    assert len({lane.device for lane in lanes}) == 2
