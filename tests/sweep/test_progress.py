"""What is seen of a sweep while it lasts."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from optest.line import one_line
from optest.store.records import Expected, Planned, Result
from optest.sweep.executor import Collection, Work
from optest.sweep.live import Display
from optest.sweep.progress import Plain, Quiet
from optest.sweep.words import duration

UNITS = [Planned(f"test_a.py::test_a[m={m}]", "test_a.py", "test_a") for m in range(200)]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_lines_come_now_and_then_and_failures_at_once():
    stream, clock = io.StringIO(), Clock()
    plain = Plain(stream, clock)
    plain.expect_files(2)
    plain.collected(Collection("test_f.py", fault="test_f.py: SyntaxError"))
    plain.expect([Work(unit, Expected(1.0)) for unit in UNITS], 2)
    for at, unit in enumerate(UNITS):
        plain.begin(unit)
        clock.now += 0.125
        bad = at == 7
        plain.take(Result(unit, "hung" if bad else "passed", "too\nlong" if bad else "", seconds=1))
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["FAULT test_f.py: SyntaxError", "optest: 200 to run, 2 at a time"]
    assert lines[2] == "HUNG test_a.py::test_a[m=7]: too long"
    assert lines[3] == "optest: 40 of 200 done, 1 failed, about 1 min left"
    assert len(lines) == 3 + 5  # 25 s, one every 5 s


def test_a_line_names_what_runs_the_longest_first():
    stream, clock = io.StringIO(), Clock()
    plain = Plain(stream, clock)
    plain.expect([Work(unit) for unit in UNITS], 5)
    for unit in UNITS[:5]:
        clock.now += 2
        plain.begin(unit)
    (line,) = stream.getvalue().splitlines()[1:]
    assert line == (
        "optest: 0 of 200 done; runs: test_a.py::test_a[m=0] (4.0 s), "
        "test_a.py::test_a[m=1] (2.0 s), test_a.py::test_a[m=2] (0.0 s)"
    )


def test_quiet_says_nothing():
    stream = io.StringIO()
    quiet = Quiet(stream, Clock())
    quiet.expect([Work(UNITS[0])], 1)
    quiet.take(Result(UNITS[0], "failed", "no"))
    assert stream.getvalue() == ""


@pytest.fixture
def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)


def test_the_display_shows_counts_time_left_and_what_runs_with_its_brackets(terminal):
    display = Display(terminal)
    with display:
        display.expect_files(3)
        display.collected(Collection("a.py"))
        display._live.refresh()
        display.expect([Work(unit, Expected(2.0)) for unit in UNITS[:10]], 2)
        display.begin(UNITS[0])
        display.take(Result(UNITS[0], "failed", "[red]no[/red]", seconds=2.0))
        display.begin(UNITS[1])
        display._live.refresh()
    seen = terminal.file.getvalue()
    for words in (
        "collecting 1/3 files",
        "1/10  1 failed  about 9.0 s left",
        "test_a.py::test_a[m=1]",
        "FAILED test_a.py::test_a[m=0]: [red]no[/red]",
    ):
        assert words in seen


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (3.21, "3.2 s"), (45.4, "45 s"), (90, "2 min"), (7170, "2 h 0 min")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\n b\tc", "a b c"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\ud800", "\\ud800"),
        ("x" * 30, "x" * 19 + "…"),
        ("x" * 50 + " y", "x" * 19 + "…"),
    ],
)
def test_text_of_others_is_one_line_that_no_terminal_acts_on(text, words):
    assert one_line(text, 20) == words
