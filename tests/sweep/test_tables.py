"""Tables of a sweep read as the script's own, whatever became of its cases."""

from __future__ import annotations

import json
import math

import pytest
import torch

from optest.cases import table
from optest.cases.events import plain
from optest.checking import compare
from optest.store.records import Place, Planned, Result
from optest.sweep.sweep_outcome import slim
from optest.sweep.tables import tables
from optest.timing import Timing

ONES, TWOS = torch.ones(4), torch.full((4,), 2.0)


def result(m, row=None, status="passed", reason="", **more):
    where = more.pop("where", "")
    gfx = more.pop("gfx", "cpu")
    name = more.pop("table", "silu")
    file, function = more.pop("file", "ops/test_a.py"), more.pop("function", "test_a")
    planned = Planned(f"test_a.py::{function}[m={m}]", file, function, {"m": m}, where, m, name)
    stored = json.loads(json.dumps(plain(row or {})))  # as it comes out of a store
    return Result(planned, status, reason, row=stored, place=Place(gfx=gfx), **more)


def returned(us, verdict, rate):
    return {"gfx": "cpu", "cpp us": us, "cpp TB/s": rate, "cpp err": verdict, "note": "a|b"}


def test_rows_read_as_the_script_prints_them():
    rows = [
        returned(Timing(12.345678, samples_us=(12.0, 13.0)), compare(ONES, ONES), 1234567.8),
        returned(Timing.nan("check mode"), compare(ONES, TWOS), math.nan),
        returned(Timing(3.0), compare(ONES, ONES), math.inf),
    ]
    expected = table.markdown([{"m": m, **row} for m, row in enumerate(rows)])
    statuses = ["passed", "failed", "passed"]
    results = [result(m, row, s) for m, (row, s) in enumerate(zip(rows, statuses, strict=True))]
    (made,) = tables(map(slim, results))
    assert made.title == "silu"
    assert made.markdown == expected
    assert "1 FAIL" in expected
    assert "inf" in expected


def test_a_column_that_nothing_was_measured_in_is_aligned_as_the_script_has_it():
    rows = [returned(Timing.nan("check mode"), compare(ONES, ONES), math.nan)]
    (made,) = tables([result(0, rows[0])])
    assert made.markdown == table.markdown([{"m": 0, **rows[0]}])


def test_what_died_has_its_arguments_its_card_and_the_reason_last():
    results = [
        result(0, status="crashed", reason="killed by SIGSEGV"),
        result(1, {"error": "ValueError: no"}, "error", "ValueError: no"),
        result(2, {"gfx": "cpu", "v": 1}),
        result(3, status="hung", reason="longer than 1 s"),
        result(4, status="skipped"),
    ]
    (made,) = tables(results)
    head, _, *body = made.markdown.splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (head, *body)]
    assert cells == [
        ["m", "gfx", "v", "error"],
        ["0", "cpu", "", "crashed: killed by SIGSEGV"],
        ["1", "cpu", "", "ValueError: no"],
        ["2", "cpu", "1", ""],
        ["3", "cpu", "", "hung: longer than 1 s"],
    ]


def test_columns_stand_as_the_script_has_them_also_where_its_first_case_died():
    row = {"us": 1.0, "gfx": "cpu"}
    (made,) = tables([result(0, status="crashed", reason="no"), result(1, row)])
    heads = [cell.strip() for cell in made.markdown.splitlines()[0].split("|")[1:-1]]
    assert heads == ["m", "us", "gfx", "error"]


def test_cards_stand_in_one_table_and_are_told_apart():
    results = [
        result(1, {"v": 1}, where="gfx942", gfx="gfx942"),
        result(1, {"v": 2}, where="sm_90", gfx="sm_90"),
    ]
    (made,) = tables(results)
    assert [line.split("|")[2].strip() for line in made.markdown.splitlines()[2:]] == [
        "gfx942",
        "sm_90",
    ]


def test_a_table_is_called_as_the_script_calls_it_and_no_two_are_called_alike():
    results = [
        result(0, {"v": 1}),
        result(1, {"v": 1}, table=""),
        result(2, {"v": 1}, table="both", function="test_b"),
        result(3, {"v": 1}, table="both", function="test_c"),
        result(4, {"v": 1}, file="ops/test_z.py"),
    ]
    assert [made.title for made in tables(results)] == [
        "silu (ops/test_a.py)",
        "test_a",
        "both (test_b)",
        "both (test_c)",
        "silu (ops/test_z.py)",
    ]


def test_a_whole_script_has_no_row_of_its_own():
    script = Result(Planned("test_w.py", "test_w.py"), "crashed")
    assert tables([script]) == []


@pytest.mark.parametrize(
    ("us", "neighbours", "words"),
    [
        ([Timing(1.0), Timing(1.0)], [0, 0], None),
        ([Timing(1.0), Timing(1.0)], [1, 0], "1 of 2 rows: timed while other cases ran"),
        ([Timing.nan("check mode")] * 2, [1, 1], None),
        ([Timing(1.0, contended=True), Timing(1.0)], [0, 0], "cpp us: most samples of some rows"),
    ],
)
def test_numbers_that_neighbours_disturbed_are_marked_below(us, neighbours, words):
    rows = [returned(each, compare(ONES, ONES), 1.0) for each in us]
    results = [
        result(m, row, neighbours=beside)
        for m, (row, beside) in enumerate(zip(rows, neighbours, strict=True))
    ]
    (made,) = tables(results)
    below = made.markdown.splitlines()[4:]
    assert (words in "".join(below)) if words else not below


def test_samples_are_left_in_the_store_and_all_else_stays():
    whole = result(0, returned(Timing(2.0, samples_us=(1.0, 3.0)), compare(ONES, ONES), 1.0))
    kept = slim(whole)
    assert kept.row["cpp us"]["samples_us"] == []
    assert {**kept.row["cpp us"], "samples_us": [1.0, 3.0]} == whole.row["cpp us"]


def test_a_rate_that_no_machine_reaches_is_warned_of_where_it_was_measured_here(monkeypatch):
    from optest import arch
    from optest.cases import plausible

    said = []
    monkeypatch.setattr(plausible, "once", said.append)
    here = str(arch.get_gfx_runtime())
    row = {"cpp TFLOPS": 1e9}
    tables([result(0, row, gfx=here), result(1, row, gfx="another card")])
    assert len(said) == 1
    assert "silu: cpp TFLOPS" in said[0]
