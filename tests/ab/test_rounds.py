"""Rounds over stand-ins for machines: who runs again, what is kept when, what a fault does."""

from __future__ import annotations

import pytest

from optest.ab.blocks import of_timing
from optest.ab.rounds import Lane, Rounds
from optest.errors import OptestError, StoreError
from optest.store import Store
from optest.store.records import Planned, Result, RunFacts
from optest.sweep.case_worker import StoppedError

SIDES = (0, 1)


def unit(name):
    return Planned(f"t.py::f[{name}]", "t.py", "f")


A, B, C = map(unit, "abc")


def timed(us):
    return {"median_us": us, "samples_us": [us] * 3}


class Machine:
    """An executor that runs nothing: ``becomes`` says what comes of a unit by its turn's number."""

    def __init__(self, number, log, becomes):
        self.number, self.log, self.becomes = number, log, becomes
        self.stopped = False

    def run(self, work, begin, take):
        for each in work:
            if self.stopped:
                return
            try:
                begin(each.planned)
            except StoppedError:
                return
            self.log.append((self.number, each.planned.id[-2]))
            out = self.becomes(self.number, each.planned)
            if isinstance(out, BaseException):
                raise out
            for result in out if isinstance(out, list) else [out]:
                take(result)

    def stop(self):
        self.stopped = True


def good(side, planned):
    return Result(planned, "passed", row={"cpp us": timed(10.0 + side)})


class Bench:
    def __init__(self, tmp_path, becomes=good):
        self.log = []
        self.store = Store.open(f"sqlite:///{tmp_path}/s.db")
        self.runs = [self.store.begin(RunFacts()) for _ in SIDES]
        self.machines = [Machine(n, self.log, becomes) for n in SIDES]
        lanes = tuple(Lane(each, run) for each, run in zip(self.machines, self.runs, strict=True))
        self.rounds = Rounds(self.store, lanes)

    def run(self, pairs, count):
        for at, run in enumerate(self.runs):
            self.store.plan(run, [pair[at] for pair in pairs if pair[at]])
        for number in range(count):
            self.rounds.run(pairs, number)
            pairs = self.rounds.due(pairs)
        return pairs


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(becomes=good):
        made.append(Bench(tmp_path, becomes))
        return made[0]

    yield make
    made[0].store.close()


BOTH = [(A, A), (B, B)]


def test_sides_take_turns_and_every_round_is_a_block(bench):
    made = bench()
    made.run(BOTH, 2)
    assert made.log == [
        *((0, "a"), (1, "a"), (1, "b"), (0, "b")),
        *((1, "a"), (0, "a"), (0, "b"), (1, "b")),
    ]
    for side in SIDES:
        for each in made.rounds.results(side):
            assert of_timing(each.row["cpp us"]) == [[10.0 + side] * 3] * 2
        assert list(made.store.results(made.runs[side])) == made.rounds.results(side)


@pytest.mark.parametrize("side", SIDES)
def test_a_case_that_is_bad_on_one_side_is_not_run_again_on_either(bench, side):
    def becomes(number, planned):
        if (number, planned) == (side, A):
            return Result(planned, "hung", "it took longer than 600 s")
        return good(number, planned)

    made = bench(becomes)
    assert made.run(BOTH, 3) == [(B, B)]
    assert sorted(made.log) == sorted([(0, "a"), (1, "a"), *[(n, "b") for n in SIDES] * 3])
    assert made.rounds.results(side)[0].status == "hung"


def test_a_case_that_goes_bad_in_a_later_round_is_bad(bench):
    count = []

    def becomes(number, planned):
        count.append(number)
        return Result(planned, "failed", "wrong") if count.count(1) == 2 else good(number, planned)

    made = bench(becomes)
    made.run([(A, A)], 4)
    assert made.log == [(0, "a"), (1, "a"), (1, "a"), (0, "a")]
    assert made.rounds.results(1)[0].status == "failed"


def test_what_one_side_lacks_runs_once(bench):
    made = bench()
    made.run([(A, A), (None, B), (C, None)], 2)
    assert sorted(made.log) == [(0, "a"), (0, "a"), (0, "c"), (1, "a"), (1, "a"), (1, "b")]


def test_what_has_no_time_runs_once(bench):
    made = bench(lambda _, planned: Result(planned, "passed", row={"err": 0.0}))
    assert made.run(BOTH, 3) == []
    assert len(made.log) == 4


def test_a_whole_script_takes_part_while_its_cases_are_good(bench):
    whole = Planned("t.py", "t.py")

    def becomes(side, planned):
        return [good(side, A), good(side, B), Result(planned, "passed")]

    made = bench(becomes)
    assert made.run([(whole, whole)], 3) == [(whole, whole)]
    assert made.log == [(0, "p"), (1, "p"), (1, "p"), (0, "p"), (0, "p"), (1, "p")]
    cases = {each.planned.id: each for each in made.rounds.results(1)}
    assert len(of_timing(cases[B.id].row["cpp us"])) == 3


def test_a_store_that_fails_stops_both_sides(bench, monkeypatch):
    made = bench()
    monkeypatch.setattr(made.store, "record", lambda *_: _raise(StoreError("disk full")))
    with pytest.raises(StoreError, match="disk full"):
        made.run(BOTH, 3)
    assert made.log == [(0, "a")]


def _raise(error):
    raise error


def test_a_side_on_which_nothing_runs_any_more_stops_the_other(bench):
    def becomes(side, planned):
        return OptestError("no process") if side == 1 else good(side, planned)

    made = bench(becomes)
    with pytest.raises(OptestError, match="no process"):
        made.run(BOTH, 3)
    assert made.log == [(0, "a"), (1, "a")]


def test_stopped_rounds_keep_what_was_finished(bench):
    def becomes(side, planned):
        if (side, planned) == (0, B):
            made.rounds.stop()
        return good(side, planned)

    made = bench(becomes)
    made.rounds.run([(A, A), (C, None), (B, B)], 0)
    assert made.rounds.stopped
    assert [each.planned for each in made.rounds.results(0)] == [A, C]


def test_what_the_other_side_was_kept_from_by_a_stop_is_not_called_gone(bench):
    def becomes(side, planned):
        if (side, planned) == (0, B):
            made.rounds.stop()
        return good(side, planned)

    made = bench(becomes)
    made.rounds.run([(B, B), (A, A)], 0)
    assert made.log == [(0, "b")]
    assert list(made.store.results(made.runs[0])) != []
    assert made.rounds.results(0) == made.rounds.results(1) == []
