"""The longest first, tables in case order, and how long the rest may take."""

from __future__ import annotations

import pytest

from optest.store.records import Expected, Planned, Result
from optest.sweep.executor import Collection, Work
from optest.sweep.pace import Pace
from optest.sweep.plan import in_table_order, longest_first


def unit(name, function="f", file="a.py", where=""):
    return Planned(f"{file}::{function}[{name}]", file, function, where=where)


def order(units, seconds):
    known = {unit.key: Expected(s) for unit, s in zip(units, seconds, strict=True) if s is not None}
    return [units.index(work.planned) for work in longest_first(units, known)]


@pytest.mark.parametrize(
    ("units", "seconds", "expected"),
    [
        ([unit("1"), unit("2"), unit("3")], [1, 3, 2], [1, 2, 0]),
        # A new case is taken at the median of its function and goes before one known to be as long.
        ([unit("1"), unit("2"), unit("3"), unit("new")], [1, 2, 9, None], [2, 3, 1, 0]),
        # Of a function without a known case, at the median of its file, not of all.
        (
            [unit("1"), unit("new", "g"), unit("long", "h", "b.py"), unit("5")],
            [1, None, 100, 5],
            [2, 3, 1, 0],
        ),
        # Nothing is known: as they stand.
        ([unit("1"), unit("2")], [None, None], [0, 1]),
    ],
)
def test_the_longest_goes_first(units, seconds, expected):
    numbered = [Planned(u.id, u.file, u.function, position=n) for n, u in enumerate(units)]
    assert order(numbered, seconds) == expected


def test_a_whole_script_that_has_not_run_goes_first_and_a_known_one_in_its_place():
    units = [unit("1"), Planned("w.py", "w.py", position=1), Planned("v.py", "v.py", position=2)]
    assert order(units, [50, None, 1]) == [1, 0, 2]


def test_what_is_expected_goes_with_the_work():
    expected = Expected(3.0, peak_bytes=7)
    (work,) = longest_first([unit("1")], {unit("1").key: expected})
    assert work.expected is expected


def test_the_same_case_on_two_cards_stands_side_by_side_and_files_in_their_order():
    amd = Collection("a.py", "gfx942", (unit("1", where="gfx942"), unit("2", where="gfx942")))
    nvidia = Collection("a.py", "sm_90", (unit("2", where="sm_90"), unit("3", where="sm_90")))
    other = Collection("b.py", "sm_90", (unit("1", file="b.py", where="sm_90"),))
    ordered = in_table_order([amd, other, nvidia])
    assert [(u.id[-2], u.where) for u in ordered] == [
        ("1", "gfx942"),
        ("2", "gfx942"),
        ("2", "sm_90"),
        ("3", "sm_90"),
        ("1", "sm_90"),
    ]
    assert [u.position for u in ordered] == [0, 1, 2, 3, 4]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_what_is_left_is_what_is_expected_divided_by_the_width_less_what_ran_already():
    clock = Clock()
    pace = Pace([Work(unit("1"), Expected(40)), Work(unit("2"), Expected(20))], 2, clock)
    assert pace.left_s() == 30
    pace.begin(unit("1"))
    clock.now = 10
    assert pace.left_s() == 25
    clock.now = 1000  # longer than ever before: it counts for no more than it was expected to take
    assert pace.left_s() == 10
    pace.take(Result(unit("1"), "failed", seconds=1000))
    assert (pace.left_s(), pace.done, pace.failed) == (10, 1, 1)


def test_what_has_not_run_before_is_taken_to_last_as_the_mean_of_those_done():
    pace = Pace([Work(unit(str(n))) for n in range(4)], 1, Clock())
    assert pace.left_s() is None
    pace.take(Result(unit("0"), "passed", seconds=2))
    pace.take(Result(unit("1"), "passed", seconds=4))
    assert pace.left_s() == 6


def test_cases_of_a_whole_script_count_as_failures_and_not_as_done():
    pace = Pace([Work(Planned("w.py", "w.py"))], 1, Clock())
    pace.take(Result(unit("1", file="w.py"), "crashed"))
    assert (pace.done, pace.failed) == (0, 1)
