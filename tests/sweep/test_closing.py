"""Totals, failing cases and the commands to go on with; the exit code."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from optest.store.records import Planned, Result
from optest.sweep import commands
from optest.sweep.closing import closing
from optest.sweep.executor import Collection
from optest.sweep.request import Request
from optest.sweep.sweep_outcome import REFUSED, Outcome

ASKED = Request(paths=("ops",)).settled()
ONE = Planned("test_a.py::test_a[m=1]", "ops/test_a.py", "test_a", {"m": 1})
TWO = Planned("test_a.py::test_a[m=2]", "ops/test_a.py", "test_a", {"m": 2}, position=1)
WHOLE = Planned("test_w.py", "ops/test_w.py", position=2)
OF_WHOLE = Planned("test_w.py::test_w[m=1]", "ops/test_w.py", "test_w", {"m": 1})
GATED = Collection("ops/test_g.py", gated="not for cpu")
REFUSES = Collection("ops/test_r.py", fault=f"{REFUSED}unrecognized arguments: --nonsense")
FAULT = Collection("ops/test_f.py", fault="ops/test_f.py: it cannot be imported (SyntaxError)")


def outcome(*results, **more):
    planned = [result.planned for result in results]
    return Outcome(ASKED, run="R", planned=planned, results=results, **more)


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (outcome(Result(ONE, "passed"), Result(TWO, "empty")), 0),
        (outcome(Result(ONE, "skipped")), 0),
        (outcome(collections=[GATED]), 0),
        (outcome(elsewhere="--arch sm_90: not here"), 0),
        (outcome(), 5),
        (outcome(Result(WHOLE, "passed")), 5),
        (outcome(Result(WHOLE, "failed", "exit code 5: no case ran")), 5),
        (outcome(Result(ONE, "passed"), Result(WHOLE, "failed", "exit code 5: no case ran")), 1),
        (replace(outcome(collections=[GATED, REFUSES]), run=""), 2),
        (replace(outcome(collections=[FAULT, REFUSES]), run=""), 1),
        (outcome(Result(ONE, "passed"), collections=[REFUSES]), 1),
        *((outcome(Result(ONE, status)), 1) for status in ("failed", "error", "crashed", "hung")),
        (outcome(Result(ONE, "passed"), collections=[FAULT]), 1),
        (outcome(collections=[GATED, FAULT]), 1),
        (outcome(Result(OF_WHOLE, "passed"), Result(WHOLE, "failed")), 1),
        (replace(outcome(Result(ONE, "passed")), planned=[ONE, TWO]), 1),
        (outcome(Result(ONE, "passed"), fault="the disk is full"), 1),
        (outcome(Result(ONE, "failed"), interrupted=True), 130),
    ],
)
def test_exit_codes(made, code):
    assert made.exit_code == code


def test_the_last_words_name_what_failed_why_and_how_to_run_it_alone():
    made = outcome(
        Result(ONE, "passed", left=["default dtype"]),
        Result(TWO, "crashed", "killed by\x1b[2J\nSIGSEGV"),
        collections=[GATED, FAULT, Collection("ops/test_w.py", whole="KeyError: 'us'")],
        seconds=3.21,
    )
    words = closing(made, "", quiet=False)
    assert words.splitlines()[0] == "optest: 2 cases: 1 passed, 1 crashed in 3.2 s (run R)"
    assert "  CRASHED test_a.py::test_a[m=2]\n    killed by\\x1b[2J SIGSEGV\n" in words
    assert "    alone: OPTEST_ONLY='test_a.py::test_a[m=2]' " in words
    assert "  not for this card: ops/test_g.py: not for cpu\n" in words
    assert "  run whole: ops/test_w.py: KeyError: 'us'\n" in words
    assert "left changed, and put right: default dtype: by test_a.py::test_a[m=1]\n" in words
    assert "  FAULT ops/test_f.py\n    it cannot be imported (SyntaxError)\n" in words


def test_what_many_cases_left_changed_is_one_line():
    made = outcome(*(Result(unit, "passed", left=["import path"]) for unit in (ONE, TWO, OF_WHOLE)))
    words = closing(made, "", quiet=False)
    assert words.count("left changed") == 1
    assert "import path: by test_a.py::test_a[m=1] and 2 more\n" in words


def test_quiet_leaves_failures_alone():
    made = outcome(Result(ONE, "passed"), Result(TWO, "hung", "too long"), collections=[GATED])
    lines = closing(made, "", quiet=True).splitlines()
    assert [line.split()[0] for line in lines] == ["HUNG", "too", "alone:"]
    assert closing(outcome(Result(ONE, "passed")), "", quiet=True) == ""


def test_no_more_failures_are_listed_than_can_be_read():
    many = [replace(ONE, id=f"test_a.py::test_a[m={m}]") for m in range(70)]
    words = closing(outcome(*(Result(unit, "failed", "no") for unit in many)), "", quiet=False)
    assert words.count("FAILED") == 50
    assert "… and 20 more" in words


@pytest.mark.parametrize("more", [{"interrupted": True}, {"fault": "the disk is full"}])
def test_what_was_stopped_says_how_to_go_on(more):
    words = closing(outcome(Result(ONE, "passed"), **more), "sqlite:////a b.db", quiet=True)
    assert words.endswith("run --resume R --store 'sqlite:////a b.db'\n")
    assert more.get("fault", "interrupted") in words


def test_a_script_that_ran_whole_fails_once_unless_it_died():
    case, script = Result(OF_WHOLE, "failed"), Result(WHOLE, "failed", "exit code 1")
    assert outcome(case, script).bad == [case]
    died = replace(script, status="crashed")
    assert outcome(case, died).bad == [case, died]
    assert outcome(replace(case, status="passed"), script).bad == [script]


@pytest.mark.parametrize(
    ("said", "unit", "expected"),
    [
        ({}, ONE, ["OPTEST_ONLY=test_a.py::test_a[m=1]", "PY", "ops/test_a.py"]),
        (
            {"words": ("-s", "1 2"), "mode": "check"},
            ONE,
            [
                "OPTEST_ONLY=test_a.py::test_a[m=1]",
                "OPTEST_MODE=check",
                "OPTEST_GUARDS=full",
                *("PY", "ops/test_a.py", "-s", "1 2"),
            ],
        ),
        (
            {"smoke": True, "mode": "check"},
            ONE,
            [*("OPTEST", "run", "ops/test_a.py", "--smoke", "--check"), "-k", ONE.id],
        ),
        ({"guards": "off"}, WHOLE, ["OPTEST_GUARDS=off", "PY", "ops/test_w.py"]),
    ],
)
def test_a_unit_is_run_alone_as_it_was_run(said, unit, expected, monkeypatch):
    monkeypatch.setattr(commands.sys, "executable", "PY")
    monkeypatch.setattr(commands.sys, "argv", ["/bin/optest"])
    line = commands.alone(unit, Request(**said).settled())
    assert shlex.split(line) == ["optest" if word == "OPTEST" else word for word in expected]


def test_a_case_of_a_script_that_is_run_whole_is_not_asked_for_by_its_id():
    of_script = Collection(OF_WHOLE.file, planned=(WHOLE,), whole="KeyError")
    made = outcome(Result(OF_WHOLE, "failed", "no"), collections=[of_script])
    smoke = replace(made, request=Request(smoke=True).settled())
    assert "-k" not in closing(smoke, "", quiet=True)
    assert "OPTEST_ONLY='test_w.py::test_w[m=1]'" in closing(made, "", quiet=True)


def test_settings_that_change_results_go_along(monkeypatch):
    monkeypatch.setenv("OPTEST_SEED", "3")
    monkeypatch.setenv("OPTEST_LOG_LEVEL", "ERROR")
    words = shlex.split(commands.alone(ONE, ASKED))
    assert "OPTEST_SEED=3" in words
    assert not any("LOG_LEVEL" in word for word in words)
