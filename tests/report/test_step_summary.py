"""The page of a step: failures first, tables whole, never longer than GitHub bears."""

from __future__ import annotations

import pytest

from optest.errors import UsageError
from optest.report import step_summary
from optest.store.records import Place, Planned, Result, RunFacts
from optest.sweep.executor import Collection
from optest.sweep.request import Request
from optest.sweep.sweep_outcome import Outcome
from optest.sweep.tables import Table

ONE, TWO = (Planned(f"test_a.py::test_a[m={m}]", "test_a.py", "test_a") for m in (1, 2))
OUTCOME = Outcome(
    Request(),
    [
        Collection("test_f.py", fault="SyntaxError"),
        Collection("test_g.py", gated="not for <cpu>"),
        Collection("test_w.py", whole="KeyError"),
    ],
    run="R",
    facts=RunFacts(commit="c" * 40, dirty=True, place=Place(gfx="cpu", device="a CPU")),
    planned=[ONE, TWO],
    results=[
        Result(ONE, "passed"),
        Result(TWO, "crashed", "killed <b>", "</pre><script>\n\n\x1b[31mlast"),
    ],
    seconds=2.0,
)
TABLES = [Table("silu", [{"m": 1, "us": 2.5}], ["1 of 1 rows: timed beside others."])]


def test_what_failed_comes_first_then_the_tables():
    page = step_summary.markdown(OUTCOME, TABLES)
    assert page.startswith("## optest: 2 cases: 1 passed, 1 crashed\n")
    order = [
        "run `R` · commit `cccccccccccc` (changed) · cpu a CPU · 2.0 s",
        "- **fault** `test_f.py`: SyntaxError",
        "- **crashed** `test_a.py::test_a[m=2]`: killed &lt;b>",
        "### silu\n\n|   m |   us |",
        "1 of 1 rows",
        "### Not for this card\n\n- test_g.py: not for &lt;cpu>",
        "### Run whole\n\n- test_w.py: KeyError",
    ]
    places = [page.index(words) for words in order]
    assert places == sorted(places)


def test_text_of_a_case_cannot_leave_its_box():
    page = step_summary.markdown(OUTCOME, TABLES)
    assert "&lt;/pre>&lt;script>" in page
    assert "\\x1b[31mlast" in page
    assert page.count("<pre>") == page.count("</pre>") == 1


@pytest.mark.parametrize("limit", [200, 1000, 20_000, step_summary.LIMIT])
def test_the_page_stays_within_its_limit_and_says_so_where_it_was_cut(limit):
    bad = [Result(TWO, "failed", "ü" * 400, "t" * 5000)] * 150
    tables = [Table(f"t{n}", [{"m": m, "us": 1.0} for m in range(500)]) for n in range(100)]
    outcome = Outcome(Request(), planned=[TWO], results=bad)
    page = step_summary.markdown(outcome, tables, limit)
    assert len(page.encode()) <= limit
    assert "does not fit" in page
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) % 502 == 0, "a table was cut"


def test_it_is_appended_within_what_the_steps_file_has_left(tmp_path):
    path = tmp_path / "deep" / "summary.md"
    step_summary.append(path, OUTCOME, TABLES)
    first = path.read_text()
    step_summary.append(path, OUTCOME, TABLES)
    assert path.read_text() == first * 2
    path.write_text("x" * step_summary.LIMIT)
    step_summary.append(path, OUTCOME, TABLES)
    assert path.stat().st_size == step_summary.LIMIT


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"GITHUB_STEP_SUMMARY='.*': it cannot be written"):
        step_summary.append(tmp_path, OUTCOME, TABLES)
