"""``optest trace``: a real case under the profiler, its trace read as JSON."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optest.cli.main import app
from optest.tracing import record
from optest.tracing.choice import Asked, path_of

ROOT = Path(__file__).parents[2]
SCRIPT = """
import argparse, os
import torch
from optest.test_common import benchmark, checkAllclose, run_perftest, summarize

SMOKE = ["-s", "8"]

@benchmark()
def test_product(m):
    x = torch.randn(m, m)
    want = x @ x
    ret = {}
    for name, fn in {"mm": torch.mm, "sum": lambda a, b: (a[:, :, None] * b).sum(1)}.items():
        got, us = run_perftest(fn, x, x)
        ret[f"{name} us"] = us
        ret[f"{name} err"] = checkAllclose(want, got if m != 13 else got + 1, rtol=1e-3, atol=1e-3)
    return ret

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", type=int, nargs="*", default=[16, 13])
    summarize("products", [test_product(m) for m in parser.parse_args().s])
"""
ID = "test_product.py::test_product[m={}]"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with an op test below it."""
    (tmp_path / "op_tests").mkdir()
    (tmp_path / "op_tests" / "test_product.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # an op test that is loaded adds its folder
    return tmp_path


def optest(here, *arguments):
    """The command in a process of its own: a profiler and an op test are nobody else's."""
    return subprocess.run(
        [sys.executable, "-m", "optest.cli.main", "trace", *arguments],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def refused(*arguments):
    done = CliRunner().invoke(app, ["trace", *arguments])
    assert done.exit_code == 2, done.output
    return done.output


def spans(path):
    events = json.loads(path.read_text())["traceEvents"]
    return [each for each in events if each.get("ph") == "X"]


def test_a_case_by_its_id_has_its_phases_and_its_operators_in_order(here):
    done = optest(here, ID.format(16))
    assert done.returncode == 0, done.stderr
    assert f"events of {ID.format(16)}" in done.stderr
    found = spans(here / "trace.json")
    assert all(each["dur"] >= 0 for each in found)

    phases = [each for each in found if each["name"].startswith("optest: ")]
    phases.sort(key=lambda each: each["ts"])
    names = [each["name"].removeprefix("optest: ") for each in phases]
    a_candidate = ["warm-up", "measure", "control", "last call", "check"]
    assert names == ["collect", ID.format(16), *a_candidate, *a_candidate]

    collect, case, *inner = phases
    assert collect["ts"] + collect["dur"] <= case["ts"]
    for before, after in itertools.pairwise(inner):
        assert before["ts"] + before["dur"] <= after["ts"]
    assert inner[0]["ts"] >= case["ts"]
    assert inner[-1]["ts"] + inner[-1]["dur"] <= case["ts"] + case["dur"]

    first, second = (each for each in inner if each["name"] == "optest: measure")
    assert operators(found, first) >= {"aten::mm"}
    assert operators(found, second) >= {"aten::mul", "aten::sum"}
    assert "aten::mm" not in operators(found, second)
    assert len([e for e in found if e["name"] == "aten::mm" and inside(e, first)]) >= 9
    # No guard calls a candidate beside its measurement.
    check, warm_up = inner[4:6]
    checked = check["ts"] + check["dur"]
    between = {"ts": checked, "dur": warm_up["ts"] - checked}
    assert "aten::mul" not in operators(found, between)


def inside(event, span):
    return span["ts"] <= event["ts"] and event["ts"] + event["dur"] <= span["ts"] + span["dur"]


def operators(found, span):
    return {each["name"] for each in found if inside(each, span)}


def test_a_file_and_a_part_of_the_id_and_the_words_of_the_script(here):
    path = here / "out" / "t.json.gz"
    done = optest(
        here, "op_tests/test_product.py", "-k", "m=5", "-o", str(path), "--", "-s", "4", "5"
    )
    assert done.returncode == 0, done.stderr
    with gzip.open(path) as file:
        names = {each.get("name") for each in json.load(file)["traceEvents"]}
    assert f"optest: {ID.format(5)}" in names
    assert [each.name for each in path.parent.iterdir()] == ["t.json.gz"]


def test_a_case_that_fails_is_told_and_traced(here):
    done = optest(here, f"op_tests/{ID.format(13)}")
    assert done.returncode == 1
    assert "failed:" in done.stderr
    assert any(each["name"] == "optest: check" for each in spans(here / "trace.json"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["op_tests/test_product.py"], ["2 cases", "-k", ID.format(16), ID.format(13)]),
        ([ID.format(99)], ["main() does not ask for it", "after --", ID.format(16)]),
        (["op_tests/test_product.py", "-k", "m=99"], ["-k 'm=99'", ID.format(16)]),
        (["op_tests/test_product.py", "-k", "m=99", "--smoke"], ["-k 'm=99'", ID.format(8)]),
        (["test_other.py::test_x[m=1]"], ["test_other.py", "no such file", "optest collect"]),
        (["test_product.py"], ["test_product.py", "no such file"]),
        ([ID.format(8), "--smoke", "--", "-s", "8"], ["--smoke", "one of the two"]),
        ([ID.format(16), "-o", "trace.txt"], ["trace.txt", "*.json"]),
        ([ID.format(16), "-o", "op_tests"], ["op_tests", "*.json"]),
        ([ID.format(16), "-o", "op_tests/test_product.py/t.json"], ["cannot be written"]),
    ],
)
def test_a_user_s_mistake_is_one_message(here, arguments, words):
    said = refused(*arguments)
    assert all(word in said for word in words), said
    assert not (here / "trace.json").exists()


def test_a_variable_that_cannot_be_is_one_message(here, monkeypatch):
    monkeypatch.setenv("OPTEST_BUDGET_S", "abc")
    done = optest(here, ID.format(16))
    assert done.returncode == 2
    assert "OPTEST_BUDGET_S='abc': expected a positive number of seconds" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (here / "trace.json").exists()


def test_a_case_that_kills_the_process_says_where_it_was(here):
    script = SCRIPT.replace("    want = x @ x\n", "    want = x @ x\n    os.abort()\n")
    (here / "op_tests" / "test_product.py").write_text(script)
    done = optest(here, ID.format(16))
    assert done.returncode == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in done.stderr
    assert "in test_product" in done.stderr


def test_two_files_of_one_name_are_told_apart_by_their_paths(here):
    (here / "more").mkdir()
    (here / "more" / "test_product.py").write_text(SCRIPT)
    said = refused(ID.format(16))
    assert "there are several (more/test_product.py, op_tests/test_product.py)" in said


@pytest.mark.parametrize("folder", [".hidden", "__pycache__", "site-packages", "environment"])
def test_what_is_installed_or_hidden_is_not_what_a_name_means(here, folder):
    inside = here / folder / "deep"
    inside.mkdir(parents=True)
    if folder == "environment":
        (here / folder / "pyvenv.cfg").write_text("")
    (inside / "test_product.py").write_text(SCRIPT)
    assert path_of(Asked(ID.format(16)), here) == here / "op_tests" / "test_product.py"


def test_a_gated_script_and_one_without_cases_say_so(here):
    gated = "from optest.test_common import benchmark\nfrom optest import logger\n"
    gated += "@benchmark()\ndef test_x(m): ...\ndef main(): logger.warning('only on gfx942')\n"
    (here / "test_gated.py").write_text(gated)
    assert "only on gfx942" in refused("test_gated.py")
    (here / "test_none.py").write_text("x = 1\n")
    assert "no @benchmark()" in refused("test_none.py")
    whole = SCRIPT.replace("    summarize(", "    raise KeyError('us')\n    summarize(")
    (here / "test_whole.py").write_text(whole)
    assert "cannot be run one by one: KeyError: 'us'" in refused("test_whole.py")


def test_what_was_put_in_place_is_taken_away_again(here, monkeypatch):
    monkeypatch.delenv("OPTEST_BUDGET_S", raising=False)
    refused("op_tests/test_product.py")
    assert "OPTEST_BUDGET_S" not in os.environ


@pytest.mark.parametrize(("given", "held"), [(None, "0.02"), ("3", "3")])
def test_measurements_are_short_unless_it_is_said_how_long(monkeypatch, given, held):
    if given is None:
        monkeypatch.delenv("OPTEST_BUDGET_S", raising=False)
    else:
        monkeypatch.setenv("OPTEST_BUDGET_S", given)
    with record._short_measurements():
        assert os.environ["OPTEST_BUDGET_S"] == held
    assert os.environ.get("OPTEST_BUDGET_S") == given
