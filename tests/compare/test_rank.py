"""Which candidate won: the fastest right one, ties within the noise, never a wrong one."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest
from compare_sides import case, cell, side

from optest.compare import pasted, rank
from optest.compare.side import Cell


def ranked(*cases, **said):
    return rank.ranked(side("run a", *cases, **said))


def test_the_fastest_wins_and_who_is_as_fast_is_tied():
    (found,) = ranked(
        case(
            1,
            {
                "slow": cell(150.0, seed=1),
                "close": cell(100.3, spread=0.02, seed=2),
                "fast": cell(100.0, spread=0.02, seed=5),
            },
        )
    )
    assert {found.winner, *found.ties} == {"fast", "close"}
    assert found.us < 100.5
    assert found.behind == {"slow": pytest.approx(1.5, rel=0.02)}


def test_a_small_difference_beyond_the_noise_is_no_tie():
    (found,) = ranked(case(1, {"a": cell(100.0, 0.001), "b": cell(103.0, 0.001, seed=1)}))
    assert (found.winner, found.ties, [*found.behind]) == ("a", [], ["b"])


def test_wrong_candidates_never_win():
    (found,) = ranked(case(1, {"wrong": Cell(1.0, (1.0,) * 20, wrong="off"), "right": cell(100.0)}))
    assert (found.winner, found.wrong) == ("right", {"wrong": "off"})
    (dead,) = ranked(case(2, {"a": cell(1.0)}, wrong="crashed: SIGSEGV"))
    assert (dead.winner, dead.wrong) == ("", {"a": "crashed: SIGSEGV"})
    assert math.isnan(dead.us)
    (empty,) = ranked(case(3, {}, wrong="hung"))
    assert empty.wrong == {"": "hung"}


def test_what_was_not_timed_does_not_win():
    (found,) = ranked(case(1, {"unknown": Cell(), "known": cell(9.0)}))
    assert (found.winner, found.ties, dict(found.behind)) == ("known", [], {})


def test_times_that_are_only_bounds_lose_to_nobody():
    (found,) = ranked(case(1, {"a": cell(1.0), "b": cell(9.0, contended=True)}))
    assert (found.winner, found.ties) == ("a", ["b"])


def test_many_cases_of_equal_candidates_have_hardly_a_winner():
    """Two names of one kernel: noise alone must not tell them apart."""
    cases = [
        case(n, {"a": cell(50.0, 0.03, 30, 2 * n), "b": cell(50.0, 0.03, 30, 2 * n + 1)})
        for n in range(300)
    ]
    assert sum(not each.ties for each in ranked(*cases)) <= 3


def test_who_lost_by_little_is_tied_where_many_others_were_held_against_each_other():
    close = case(0, {"a": cell(100.0, 0.02, 20, 101), "b": cell(102.5, 0.02, 20, 1)})
    equal = [
        case(n, {"a": cell(50.0, 0.02, 20, 7), "b": cell(50.0, 0.02, 20, 7)}) for n in range(1, 41)
    ]
    assert [*ranked(close)[0].behind] == ["b"]
    assert ranked(close, *equal)[0].ties == ["b"]


def test_of_a_pasted_table_the_smaller_number_wins():
    text = "| m | a us | b us | c us | c err |\n|-|-|-|-|-|\n| 1 | 2.0 | 1.9 | 1 | 0.9 |\n"
    (found,) = rank.ranked(pasted.side("t.md", text))
    assert (found.winner, found.us, found.behind) == ("b", 1.9, {"a": 2.0 / 1.9})
    assert [*found.wrong] == ["c"]


def test_the_table():
    text = rank.table(
        ranked(
            case(1, {"a|b": cell(100.0, 0.001), "b": cell(200.0, 0.001), "c": Cell(wrong="x")}),
            case(2, {}, wrong="hung", where="gfx950"),
        )
    )
    first, second = text.splitlines()[2:]
    assert first.startswith("| `test_a.py::test_a[m=1]` | `a\\|b` | ")
    assert first.endswith(" |  | `b` x 2 | `c` |")
    assert second == "| `test_a.py::test_a[m=2] on gfx950` |  |  |  |  | (the case) |"


def test_json_for_a_dispatcher():
    found = ranked(
        case(1, {"a": cell(100.0, 0.001), "b": cell(200.0, 0.001)}, gfx="gfx942"),
        case(2, {"a": Cell(wrong="off")}),
    )
    read = json.loads(rank.document("run a", found))
    assert (read["optest_rank"], read["run"]) == (1, "run a")
    first, second = read["cases"]
    assert first["winner"] == "a"
    assert first["arguments"] == {"m": "1"}
    assert first["gfx"] == "gfx942"
    assert first["behind"]["b"] == pytest.approx(2.0, rel=0.01)
    assert (second["winner"], second["us"], second["wrong"]) == (None, None, {"a": "off"})


def test_csv_for_a_dispatcher():
    found = ranked(
        case(1, {"=a": cell(100.0, 0.0)}, arguments={"m": "-1", "t": "=SUM(1)"}),
        case(2, {"b": cell(3.0, 0.0), "c": cell(3.0, 0.0)}, arguments={"m": "2", "n": "x,y"}),
    )
    read = [*csv.reader(io.StringIO(rank.rows(found)))]
    head = ["case", "table", "gfx", "arg.m", "arg.t", "arg.n", "winner", "us", "ties", "wrong"]
    assert read[0] == head
    assert read[1][3:] == ["-1", "'=SUM(1)", "", "'=a", "100.0", "", ""]
    assert read[2][3:] == ["2", "", "x,y", "b", "3.0", "c", ""]
