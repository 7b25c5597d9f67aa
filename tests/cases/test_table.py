"""Cells hold what they were given (cases M1 to M5 and S4)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from optest.cases import table
from optest.cases.row import Row
from optest.cases.summary import summarize
from optest.checking import compare
from optest.timing import Timing


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1234567.891, "1234568"),
        (99999.9, "100000"),
        (12.34567, "12.346"),
        (0.0, "0"),
        (1e-6, "1e-06"),
        (float("nan"), ""),
        (float("inf"), "inf"),
        (16, "16"),
        (2**60, str(2**60)),
        (True, "True"),
        (None, ""),
        ("0012", "0012"),
        ("1e5", "1e5"),
        ("nan", "nan"),
        ("a|b", "a\\|b"),
        ("two\nlines", "two lines"),
        ("-5", "-5"),
        ("\x01", "\\x01"),
        ("a\tb\x00\x7f", "a\\tb\\x00\\x7f"),
        (1e300, "1e+300"),
        (-1e15, "-1e+15"),
        (1.5e14, "150000000000000"),
        (10**16, "10000000000000000"),
        ("🚀", "🚀"),
        (np.float32(2.5), "2.5"),
        (np.int64(7), "7"),
        (torch.tensor(3.0), "3"),
        (torch.bfloat16, "bf16"),
        (Timing.nan("check mode"), ""),
    ],
)
def test_cells(value, expected):
    assert table.cell(value) == expected


def test_no_number_below_a_hundred_thousand_is_printed_with_an_exponent():
    for value in (99999.9, 99999.4, 12345.6, 1e-4):
        assert "e" not in table.cell(value)


def lines(rows):
    return table.markdown(rows).splitlines()


def test_an_int_column_with_a_missing_cell_stays_int():
    body = lines([{"m": 16, "x": 1}, {"x": 2}])[2:]
    assert [cell.strip() for cell in body[0].split("|")[1:-1]] == ["16", "1"]
    assert [cell.strip() for cell in body[1].split("|")[1:-1]] == ["", "2"]


def test_every_row_is_one_line_whatever_the_text():
    rows = [{"a": "x|y\nz"}, {"a": "w" * 200}, {"a": "-"}, {"a": "\x01"}, {"a": "\x1f"}]
    assert len(lines(rows)) == 2 + len(rows)
    assert "w" * 200 in table.markdown(rows)


def row(arguments, function, **values):
    made = Row(arguments, function=function, case_id=f"f.py::{function}[]")
    made.status = "passed"
    made.update(values)
    return made


def test_functions_with_different_parameters_are_not_merged(check, capsys):
    summarize("both", [row({"m": 1}, "test_a", us=1.0), row({"b": 2, "n": 3}, "test_b", us=2.0)])
    out = capsys.readouterr().out
    assert out.count("summary (markdown)") == 2
    assert "call summarize once for each test function" in check.session.failures[0].reason


def test_functions_with_the_same_parameters_are_not_merged(check, capsys):
    summarize("both", [row({"m": 1}, "test_a", us=1.0), row({"m": 1}, "test_b", us=2.0)])
    out = capsys.readouterr().out
    assert "both (test_a) summary (markdown)" in out
    assert "both (test_b) summary (markdown)" in out
    assert "rows of test_a, test_b do not belong" in check.session.failures[0].reason


def test_rows_of_one_function_are_one_table(check, capsys):
    summarize("one", [row({"m": 1}, "test_a", us=1.0), row({"m": 2}, "test_a", err=2.0)])
    assert capsys.readouterr().out.count("summary (markdown)") == 1
    assert not check.session.failures


def test_rows_that_did_not_run_are_left_out(check, capsys):
    skipped = Row({"m": 2}, function="test_a", case_id="f.py::test_a[m=2]")
    frame = summarize("some", [row({"m": 1}, "test_a", us=1.0), skipped])
    assert len(frame) == 1
    assert "| 2 |" not in capsys.readouterr().out.replace("  ", "")


def test_plain_dicts_are_welcome(check, capsys):
    summarize("plain", [{"m": 1, "us": 2.5}])
    assert "|   m |   us |" in capsys.readouterr().out


def test_keys_that_are_no_text_are_columns_too(check, capsys):
    frame = summarize("keys", [{1: 2, None: 3.0, ("a", "b"): "c"}])
    assert "|   1 |   None | ('a', 'b')   |" in capsys.readouterr().out
    assert len(frame) == 1


def test_a_rate_no_machine_reaches_is_flagged(check, capsys, caplog):
    summarize("fast", [{"m": 1, "cpp TFLOPS": 1e9, "cpp TB/s": float("inf")}])
    assert not check.session.failures
    from optest.cases import plausible

    said = plausible.flag("fast", [{"cpp TFLOPS": 1e9, "cpp TB/s": float("inf"), "x TFLOPS": 0.1}])
    assert [message.split(" = ")[0] for message in said] == ["fast: cpp TFLOPS", "fast: cpp TB/s"]


def test_a_candidate_that_some_rows_leave_out_is_nan_there_and_an_empty_cell(check, capsys):
    both = {"right us": 1.0, "ck us": 2.0}
    rows = [
        row({"layout": "bmn"}, "test_a", **both),
        row({"layout": "mbn"}, "test_a", **{"right us": 3.0}),
    ]
    frame = summarize("some", rows)
    assert list(frame["ck us"].isna()) == [False, True]
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert [cell.strip() for cell in last.split("|")[1:-1]] == ["mbn", "3", ""]


def test_a_failed_check_is_marked_in_its_cell():
    a = torch.ones(8)
    assert table.cell(compare(a, a * 3)) == "1 FAIL"
    assert table.cell(compare(a, a)) == "0"


def test_collecting_notes_the_table_that_each_case_stands_in(make_session):
    collected = make_session("collect")
    rows = [Row({"m": m}, function="test_a", case_id=f"f.py::test_a[m={m}]") for m in (1, 2)]
    for each in rows:
        each.status = "collected"
    summarize("one", [rows[0]])
    summarize("two", [rows[1]])
    expected = {"f.py::test_a[m=1]": "one", "f.py::test_a[m=2]": "two"}
    assert collected.session.tables == expected
