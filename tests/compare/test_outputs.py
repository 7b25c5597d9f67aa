"""A comparison as a page, JSON, JUnit XML, annotations: whole, and nothing in it is run."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree as ET

import pytest

from optest.compare import annotations, as_json, as_markdown, words
from optest.compare.comparison import Comparison, Line
from optest.compare.family import Mean
from optest.compare.verdict import Verdict
from optest.compare.words import markdown
from optest.report import compare_junit

EVIL = "a|b `c` <script>alert(1)</script> @everyone\n::error::x\x00\u2028 [l](http://x) 50%"


def line(verdict, candidate="cpp", case="t.py::t[m=1]", **said):
    return Line(case, candidate, verdict, "op_tests/t.py", **said)


SLOWER = line(
    Verdict.SLOWER,
    base_us=10.0,
    head_us=12.0,
    ratio=1.2,
    low=1.1,
    high=1.3,
    p=1e-5,
    regression=True,
)
BIT_SLOWER = line(
    Verdict.SLOWER, "tri", base_us=10.0, head_us=10.3, ratio=1.03, low=1.01, high=1.05, p=1e-5
)
WRONG = line(Verdict.NOW_WRONG, "ck", base_us=5.0, reason="3 of 10 are off", failure=True)
NEW_WRONG = line(Verdict.NEW, "bad", reason="NaN", failure=True)
SAME = line(Verdict.SAME, "x", base_us=1.0, head_us=1.0, ratio=1.0, low=0.99, high=1.01, p=1.0)
POINT = line(Verdict.FASTER, "y", base_us=2.0, head_us=1.0, ratio=0.5)
GONE = line(Verdict.GONE, "old", base_us=3.0)
ALL = (SAME, BIT_SLOWER, POINT, GONE, SLOWER, NEW_WRONG, WRONG)


def comparison(*lines, **said):
    said = {"means": {"cpp": Mean(1.2, 1.1, 1.3, 4)}, "machine": "gfx942, A card", **said}
    return Comparison("run a", "run b", lines or ALL, **said)


def rows(page):
    return [row for row in page.splitlines() if row.startswith("| `")]


def test_the_page_has_the_worst_first_and_folds_what_is_the_same():
    page = as_markdown.page(comparison())
    head = page.splitlines()[0]
    assert head == ("## optest compare: 1 now wrong, 2 slower, 1 gone, 1 faster, 1 new, 1 same")
    before, _, folded = page.partition("<details><summary>1 same</summary>")
    candidates = [row.split("|")[2].strip() for row in rows(before) if "t.py" in row]
    assert candidates == ["`ck`", "`bad`", "`cpp`", "`tri`", "`old`", "`y`"]
    assert ["`x`" in row for row in rows(folded)] == [True]
    assert "| `cpp` | 4 | +20 % | +10 % to +30 % |" in before
    assert "| **slower** | 10 | 12 | +20 % | +10 % to +30 % |" in before
    assert "| slower | 10 | 10.3 | +3.0 % | +1.0 % to +5.0 % |" in before
    assert "| faster | 2 | 1 | -50 % | not known |" in before
    assert "| **now wrong** | 5 |  |  |  | `3 of 10 are off` |" in before


def test_the_page_says_what_was_not_alike():
    page = as_markdown.page(comparison(differences=["host: a, then b"], notes=["torch: 1, then 2"]))
    assert "**Not measured alike:**\n\n- host: a, then b\n" in page
    assert page.endswith("- torch: 1, then 2\n")


@pytest.mark.parametrize("limit", [3_000, 20_000, as_markdown.LIMIT])
def test_the_page_is_never_longer_than_a_comment_may_be(limit):
    many = [
        line(verdict, case=f"t.py::t[m={n}]", base_us=1.0, head_us=2.0, ratio=2.0, reason="r" * 300)
        for n in range(3000)
        for verdict in (Verdict.SLOWER, Verdict.SAME)
    ]
    notes = [f"{n}: " + "v" * 100 for n in range(10)]
    page = as_markdown.page(comparison(*many, notes=notes))[: as_markdown.LIMIT + 1]
    cut = as_markdown.page(comparison(*many, notes=notes), limit)
    assert len(page) <= as_markdown.LIMIT
    assert len(cut) <= limit
    shown = len(rows(cut)) - 1
    assert "more lines did not fit here: --json FILE has all." in cut
    assert 0 < shown < 6000
    assert cut.count("<details>") == cut.count("</details>") == 1


def test_nothing_of_a_name_is_markup():
    evil = line(Verdict.SLOWER, EVIL, EVIL, reason=EVIL, notes=[EVIL], ratio=1.2)
    page = as_markdown.page(
        comparison(evil, means={EVIL: Mean(1.0, 0.9, 1.1, 3)}, notes=[EVIL], differences=[EVIL])
    )
    outside = [part for n, part in enumerate(page.split("`")) if n % 2 == 0]
    text = "".join(outside).replace("<details>", "").replace("</details>", "")
    assert "<script" not in text
    assert "@everyone" not in text
    assert "[l](" not in text
    for row in rows(page):
        cells = row.replace("\\|", "")
        assert cells.count("|") in {5, 9}, row
    assert "\n::error" not in page
    assert "\x00" not in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://a.example", "http:&#8203;//a.example"),
        ("WWW.a.example", "WWW&#8203;.a.example"),
        ("fix-#12", "fix-\\#&#8203;12"),
        ("GH-12", "GH&#8203;-12"),
        ("a@b.example", "a@&#8203;b.example"),
        ("main: high-12, awww. #x", "main: high-12, awww. \\#x"),
    ],
)
def test_github_makes_no_link_and_no_mention_of_a_name(text, shown):
    assert markdown(text) == shown


def test_an_empty_comparison_is_a_page():
    page = as_markdown.page(Comparison("a", "b", ()))
    assert page.startswith("## optest compare: nothing to compare\n")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0, "+0.0 %"),
        (1.0734, "+7.3 %"),
        (0.5, "-50 %"),
        (1.0996, "+10 %"),
        (3.2, "x 3.2"),
        (math.nan, ""),
        (math.inf, ""),
    ],
)
def test_a_change_in_words(ratio, text):
    assert words.percent(ratio) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, ""),
        (12.3456, "12.346"),
        (123456.7, "123457"),
        (1e-5, "1e-05"),
        (99999.4, "99999"),
    ],
)
def test_microseconds_in_words(value, text):
    assert words.microseconds(value) == text


def test_one_of_a_noun_and_many():
    assert words.counted(1, "more line") == "1 more line"
    assert words.counted(1234, "more line") == "1,234 more lines"


def test_json_holds_all_and_null_for_what_is_not_known():
    read = json.loads(as_json.document(comparison()))
    assert read["optest_compare"] == 1
    assert read["exit_code"] == 1
    assert read["counts"] == {
        "now wrong": 1, "slower": 2, "gone": 1, "faster": 1, "new": 1, "same": 1,
    }  # fmt: skip
    assert read["means"]["cpp"] == {"ratio": 1.2, "interval": [1.1, 1.3], "cases": 4}
    by_name = {each["candidate"]: each for each in read["lines"]}
    assert by_name["cpp"] == {
        "case": "t.py::t[m=1]",
        "candidate": "cpp",
        "file": "op_tests/t.py",
        "verdict": "slower",
        "base_us": 10.0,
        "head_us": 12.0,
        "ratio": 1.2,
        "interval": [1.1, 1.3],
        "p": 1e-5,
        "reason": "",
        "notes": [],
        "failure": False,
        "regression": True,
    }
    assert by_name["ck"]["head_us"] is by_name["ck"]["interval"] is by_name["ck"]["p"] is None
    assert by_name["y"]["interval"] is None
    assert [each["candidate"] for each in read["lines"]][:3] == ["ck", "bad", "cpp"]


def test_junit_fails_what_makes_the_exit_code():
    root = ET.fromstring(compare_junit.document(comparison()).split("\n", 1)[1])
    cases = {each.get("name"): each for each in root.iter("testcase")}
    failed = {name for name, each in cases.items() if each.find("failure") is not None}
    assert failed == {f"t.py::t[m=1] {name}" for name in ("cpp", "ck", "bad")}
    assert (root.get("tests"), root.get("failures")) == ("7", "3")
    suite = root.find("testsuite")
    assert (suite.get("name"), suite.get("skipped")) == ("op_tests/t.py", "1")
    assert "+20 %" in cases["t.py::t[m=1] cpp"].find("failure").get("message")
    assert cases["t.py::t[m=1] old"].find("skipped") is not None
    times = {name: cases[f"t.py::t[m=1] {name}"].get("time") for name in ("cpp", "ck")}
    assert times == {"cpp": "0.000012000", "ck": "0"}


def test_junit_holds_any_text():
    evil = line(Verdict.NOW_WRONG, EVIL, EVIL, reason=EVIL, failure=True)
    root = ET.fromstring(compare_junit.document(comparison(evil)).split("\n", 1)[1])
    message = next(root.iter("failure")).get("message")
    assert "<script>alert(1)</script>" in message
    assert "\\x00" in message


def test_annotations_are_errors_for_what_fails_and_warnings_for_what_is_slower():
    lines = [*annotations.commands(comparison())]
    heads = [each.partition("::")[2].partition("::")[0] for each in lines]
    assert heads == [
        "error file=op_tests/t.py,title=wrong result",
        "error file=op_tests/t.py,title=wrong result",
        "error file=op_tests/t.py,title=slower",
        "warning file=op_tests/t.py,title=slower",
    ]
    assert "t.py::t[m=1] cpp: +20 %25 (+10 %25 to +30 %25): 10 us, now 12 us\n" in lines[2]


def test_annotations_are_no_more_than_github_shows_and_one_line_each():
    many = [
        Line(EVIL, EVIL, Verdict.NOW_WRONG, "a,b:c.py", reason=EVIL, failure=True)
        for _ in range(30)
    ]
    lines = [*annotations.commands(comparison(*many))]
    assert len(lines) == 10
    assert lines[-1] == "::error title=optest compare::21 more of this kind\n"
    for each in lines[:-1]:
        assert each.startswith("::error file=a%2Cb%3Ac.py,title=wrong result::")
        assert each.count("\n") == 1
        assert "\r" not in each
        assert "50%25" in each
