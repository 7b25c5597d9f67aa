"""Pasted tables are read right, or refused with the line that is in doubt."""

from __future__ import annotations

import math

import pytest
import torch

from optest.cases import table as our_table
from optest.checking import compare as check
from optest.compare import pasted
from optest.compare.markdown_tables import tables
from optest.errors import UsageError
from optest.timing import Timing

# As pandas writes it, behind a line of aiter's log.
AITER = """
[aiter] type:int8, M:128
[2026-11-30 04:10:01,123] aiter INFO: batched gemm summary (markdown):
|   b |    m | dtype          | layout   | gfx    |   triton us |   triton TB/s |   triton err |
|----:|-----:|:---------------|:---------|:-------|------------:|--------------:|-------------:|
|   8 |    1 | torch.bfloat16 | bmn      | gfx942 |     12.3456 |      3.21e-05 |            0 |
|   8 | 4096 | torch.bfloat16 | mbn      | gfx942 |  1.2345e+03 |      1.2      |        0.993 |
done
""".replace("err |\n", "err |    ck us |   ck err |\n").replace(
    "-:|\n", "-:|---------:|---------:|\n"
)
AITER = AITER.replace(" 0 |\n", " 0 |  9.87    |        0 |\n").replace(
    "0.993 |\n", "0.993 | nan | nan |\n"
)


def test_a_table_in_aiters_form():
    side = pasted.side("t.md", AITER)
    first, second = side.cases
    assert first.id == "batched gemm[b=8-m=1-dtype=torch.bfloat16-layout=bmn]"
    assert first.arguments == {"b": "8", "m": "1", "dtype": "torch.bfloat16", "layout": "bmn"}
    assert (first.table, first.gfx, side.places[0].gfx) == ("batched gemm", "gfx942", "gfx942")
    assert {name: cell.us for name, cell in first.cells.items()} == {"triton": 12.3456, "ck": 9.87}
    assert [*second.cells] == ["triton"]  # what is nan was left out of the run
    assert second.cells["triton"].us == 1234.5
    assert second.cells["triton"].wrong == "0.993 of the elements mismatch"
    assert side.pasted


def test_our_own_table_reads_back():
    bad = check(torch.ones(16), torch.zeros(16))
    rows = [
        {"m": 16, "q|x": "a|b", "gfx": "cpu", "cpp us": Timing(0.000012345), "cpp err": bad},
        {"m": 32, "q|x": "", "gfx": "cpu", "cpp us": Timing(123456.7), "cpp err": 0.0},
        {"m": 64, "q|x": "c", "gfx": "cpu", "cpp us": Timing.nan("check"), "cpp err": 0.01},
        {"m": 128, "q|x": "d", "error": "RuntimeError: a|b"},
    ]
    text = f"\nquant summary (markdown):\n{our_table.markdown(rows)}\n\n1 failed\n"
    side = pasted.side("t.md", text)
    by_m = {case.arguments["m"]: case for case in side.cases}
    assert by_m["16"].id == "quant[m=16-q|x=a|b]"
    assert by_m["16"].cells["cpp"].us == pytest.approx(1.2e-05)
    assert by_m["16"].cells["cpp"].wrong == "err 1"
    assert by_m["32"].cells["cpp"].us == 123457
    assert not by_m["32"].cells["cpp"].wrong
    assert math.isnan(by_m["64"].cells["cpp"].us)
    assert by_m["64"].cells["cpp"].wrong == ""
    assert by_m["128"].wrong == "RuntimeError: a|b"


def test_several_tables_and_text_between_them():
    text = (
        "# Results\n\n## norm\n\n| m | us |\n|---|---|\n| 1 | 2.5 |\n\nand a | in a sentence\n\n"
        "## rope\n| m | us | err |\n|:-:|--:|--|\n| 1 | 3.5 | 0 |\n| 2 | 4.5 | |\n"
        "| name | value |\n|---|---|\n| us | 3 |\n"
    )
    side = pasted.side("t.md", text)
    assert [case.id for case in side.cases] == ["norm[m=1]", "rope[m=1]", "rope[m=2]"]
    assert [case.cells[""].us for case in side.cases] == [2.5, 3.5, 4.5]


def test_a_table_of_other_things_is_left_out_and_that_is_said():
    text = "| a | us |\n|---|---|\n| 1 | 2 |\n\n| who | what |\n|---|---|\n| x | y |\n"
    side = pasted.side("t.md", text)
    assert len(side.cases) == 1
    assert side.notes == ["t.md: 1 of 2 tables hold no times"]


@pytest.mark.parametrize(
    "text",
    [
        "> | m | us |\n> |---|---|\n> | 1 | 2.5 |\n",  # quoted in a reply
        "    | m | us |\n    |---|---|\n    | 1 | 2.5 |\n",  # indented
        "| m | us |\r\n|---|---|\r\n| 1 | 2.5 |\r\n",  # another system's line ends
        "m | us\n---|---\n1 | 2.5\n",  # no pipes at the sides
        "|m|us|\n|:-|-:|\n|1|2.5|",  # no blanks, no line end
        "|  m |   us | speedup | note |\n|----|------|---|---|\n| 1 | +2.5E+0 | 1.1x | a\\|b |\n",
    ],
)
def test_ways_to_write_one_table(text):
    (case,) = pasted.side("t.md", text).cases
    assert case.arguments == {"m": "1"}
    assert {name: cell.us for name, cell in case.cells.items()} == {"": 2.5}


def test_a_row_that_is_closed_early_lacks_its_last_cells():
    (case,) = pasted.side("t.md", "| m | a us | b us |\n|--|--|--|\n| 1 | 2 |\n").cases
    assert [*case.cells] == ["a"]


@pytest.mark.parametrize("nothing", ["", "nan", "NaN", "None", "-", "N/A", "<NA>"])
def test_ways_to_write_nothing(nothing):
    text = f"| m | a us | b us | b err |\n|-|-|-|-|\n| 1 | 2 | {nothing} | {nothing} |\n"
    (case,) = pasted.side("t.md", text).cases
    assert [*case.cells] == ["a"]


@pytest.mark.parametrize(
    ("err", "wrong"),
    [
        ("0", ""),
        ("0.0", ""),
        ("0.05", ""),
        ("1e-05", ""),
        ("0.051", "0.051 of the elements mismatch"),
        ("1", "1 of the elements mismatch"),
        ("0.01 FAIL", "err 0.01"),
        ("pass", ""),
        ("FAIL", "failed"),
        ("", ""),
    ],
)
def test_what_an_error_says(err, wrong):
    (case,) = pasted.side("t.md", f"| m | us | err |\n|-|-|-|\n| 1 | 2 | {err} |\n").cases
    assert case.cells[""].wrong == wrong


def test_cards_of_one_table_are_apart():
    text = "| m | gfx | us |\n|-|-|-|\n| 1 | gfx942 | 2 |\n| 1 | gfx950 | 1 |\n"
    side = pasted.side("t.md", text)
    assert [(case.where, case.cells[""].us) for case in side.cases] == [
        ("gfx942", 2),
        ("gfx950", 1),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found no table"),
        ("no table | here\n", "found no table"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", "line 1: a, b"),
        ("| m | ck_us |\n|--|--|\n| 1 | 2 |\n", "line 1: m, ck_us"),
        ("\n| m | us |\n|---|---|\n", "line 2: a table without rows"),
        ("| m | us |\n|--|--|\n| 1 | a | 2 |\n", "line 3: 3 cells, the head of the table has 2"),
        ("| m | us |\n|--|--|\n| 1 | 2.5 |\n| 2 | 3.\n", "line 4: the row ends after 2 of 2 cells"),
        ("| m | us |\n|--|--|\n| 1 | 2.5 |\n| 2\n", "line 4: the row ends after 1 of 2 cells"),
        ("m | us\n--|--\n1 | 2\n2 |", "line 4: the row ends after 1 of 2 cells"),
        ("| m | us | us |\n|--|--|--|\n| 1 | 2 | 3 |\n", "line 1: the column 'us' is there twice"),
        ("| m | us |\n|--|--|\n| 1 | 2 |\n| 1 | 3 |\n", "line 4: table 1[m=1] is there twice"),
        ("| m | us |\n|--|--|\n| 1 | 1,234 |\n", "line 3, column 'us': '1,234'"),
        ("| m | us |\n|--|--|\n| 1 | 12 us |\n", "line 3, column 'us': '12 us'"),
        ("| m | us |\n|--|--|\n| 1 | 0 |\n", "line 3, column 'us': '0'"),
        ("| m | us |\n|--|--|\n| 1 | -3 |\n", "line 3, column 'us': '-3'"),
        ("| m | us |\n|--|--|\n| 1 | inf |\n", "line 3, column 'us': 'inf'"),
        ("| m | us |\n|--|--|\n| 1 | 1e999 |\n", "line 3, column 'us': '1e999'"),
        ("| m | us |\n|--|--|\n| 1 | 1e308 |\n", "line 3, column 'us': '1e308'"),
        ("| m | us |\n|--|--|\n| 1 | 1e-320 |\n", "line 3, column 'us': '1e-320'"),
        ("\u2028\n| m | us |\n|--|--|\n| 1 | x |\n", "line 4, column 'us': 'x'"),
        ("| m | us |\n|--|--|\n| 1 | 0x10 |\n", "line 3, column 'us': '0x10'"),
        ("| m | us | err |\n|-|-|-|\n| 1 | 2 | bad? |\n", "line 3, column 'err': 'bad?'"),
        ("| m | us | err |\n|-|-|-|\n| 1 | 2 | 0.3 so |\n", "line 3, column 'err': '0.3 so'"),
    ],
)
def test_what_is_in_doubt_is_refused_with_its_line(text, words):
    with pytest.raises(UsageError) as refused:
        pasted.side("t.md", text)
    assert words in str(refused.value)
    assert str(refused.value).startswith("t.md")


def test_a_pipe_behind_a_backslash_is_text_also_in_a_head():
    (table,) = tables("t", "| a\\|b us | c\\\\ |\n|---|---|\n| \\| | x\\|\\|y |\n")
    assert table.columns == ["a|b us", "c\\\\"]
    assert table.rows == [(3, ["|", "x||y"])]


def test_titles_that_two_tables_share_get_numbers():
    text = "a summary (markdown):\n| m | us |\n|-|-|\n| 1 | 2 |\n\n" * 2
    assert [case.id for case in pasted.side("t.md", text).cases] == ["a 1[m=1]", "a 2[m=1]"]


@pytest.mark.parametrize("letter", ["\u2028", "\x85", "\x0c", "\x1c"])
def test_what_is_no_end_of_a_line_in_an_editor_is_text(letter):
    side = pasted.side("t.md", f"| m | us |\n|---|---|\n| a{letter}b | 2.5 |\n")
    assert [case.arguments for case in side.cases] == [{"m": f"a{letter}b"}]


def test_the_index_that_pandas_writes_is_no_argument():
    first = "|    | m | us |\n|--:|--:|--:|\n|  0 | 16 | 2.5 |\n|  1 | 32 | 3.5 |\n"
    side = pasted.side("t.md", first)
    assert [case.arguments for case in side.cases] == [{"m": "16"}, {"m": "32"}]
    other = pasted.side("t.md", first.replace("|  1 |", "| bf16 |"))
    assert [case.arguments[""] for case in other.cases] == ["0", "bf16"]
