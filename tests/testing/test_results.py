"""The result files, the events and the benchmark that counts."""

from __future__ import annotations

import json
import os
import re

import pytest

import optest.testing.assertions
import optest.testing.base
import optest.testing.items
import optest.testing.measuring  # noqa: F401 - torch does not bear a second import
from optest.testing.results import ResultFile

pytest_plugins = ["pytester"]

HEAD = """
import json, os, pytest
from optest.testing import TestBase, profiler_session

def record(profile_store, request, *runtimes):
    with profiler_session(None):
        profile_store[request.node.nodeid] = list(runtimes)

def found(name):
    with open(name) as file:
        return json.load(file)

@pytest.fixture
def breaks(): raise ValueError("no kernel")

@pytest.fixture
def breaks_after():
    yield
    raise ValueError("not cleaned up")

"""

TASK = """
class TestIt(TestBase):
    def test_right(self): pass
    def test_wrong(self): assert 0
    def test_setup(self, breaks): pass
    def test_teardown(self, breaks_after): pass
    def test_skipped(self): pytest.skip("not here")
    @pytest.mark.skip
    def test_marked(self): pass
    @pytest.mark.xfail
    def test_xfail(self): assert 0
    @pytest.mark.parametrize("n", [1, 2])
    def test_sizes(self, n): assert n == 1

    @pytest.mark.performance
    def test_bench(self, profile_store, request): record(profile_store, request, 1.5, 2.5)
    @pytest.mark.performance
    def test_other(self, profile_store, request): record(profile_store, request, 9.0)
    @pytest.mark.performance
    def test_fails_late(self, profile_store, request):
        record(profile_store, request, 9.0)
        assert 0
    @pytest.mark.performance
    def test_nothing(self, profile_store): pass
    @pytest.mark.performance
    def test_skips(self, profile_store): pytest.skip("not here")
"""
HERE = "test_task.py::TestIt::"
CORRECT = {
    "test_right": True,
    "test_wrong": False,
    "test_setup": False,
    "test_teardown": False,
    "test_sizes[1]": True,
    "test_sizes[2]": False,
}
RUNTIMES = {
    "test_bench": [1.5, 2.5],
    "test_other": [9.0],
    "test_fails_late": [],
    "test_nothing": [],
}
OUT = ("--performance-out=p.json", "--correctness-out=c.json")


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("OPTEST_NATIVE", "off")

    def go(source, *args, process=False):
        pytester.makepyfile(test_task=HEAD + source)
        if process:
            return pytester.runpytest_subprocess("-p", "no:cacheprovider", *args)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *args)

    return go


def _read(pytester, name):
    found = json.loads((pytester.path / name).read_text())
    return {nodeid.removeprefix(HERE): value for nodeid, value in found.items()}


def test_each_test_s_outcome_and_runtimes_are_in_the_files(run, pytester):
    run(TASK, *OUT)
    assert _read(pytester, "c.json") == CORRECT
    assert _read(pytester, "p.json") == RUNTIMES


def test_workers_lose_nothing_of_each_other_s(run, pytester, monkeypatch):
    # Only the process that shows the reports may write the files: two would overwrite each other.
    log = pytester.path / "events.jsonl"
    monkeypatch.setenv("OPTEST_EVENTS", str(log))
    pytester.makepyfile(test_bare=HEAD + WITHOUT)
    result = run(TASK, *OUT, "-n", "2", process=True)
    bare = "test_bare.py::TestIt::test_right"
    assert _read(pytester, "c.json") == {**CORRECT, bare: True}
    assert _read(pytester, "p.json") == RUNTIMES
    result.stdout.fnmatch_lines([*_summary(""), WARNING.replace("test_task", "test_bare")])
    ended = [json.loads(line) for line in log.read_text().splitlines()]
    ids = [line["id"] for line in ended if line["event"] == "finished"]
    assert len(ids) == len(set(ids)) == 15


def test_the_pipeline_s_two_runs_give_a_file_each(run, pytester):
    run(TASK, "-m", "not performance", "--correctness-out=c.json")
    run(TASK, "-m", "performance", "--performance-out=p.json")
    assert _read(pytester, "c.json") == CORRECT
    assert _read(pytester, "p.json") == RUNTIMES


GROWING = """
def test_first():
    assert found("c.json") == {"test_task.py::test_first": False}

@pytest.mark.performance
def test_bench(profile_store, request):
    assert found("c.json") == {"test_task.py::test_first": True}
    assert found("p.json") == {"test_task.py::test_bench": []}
    record(profile_store, request, 1.0)

def test_last():
    assert found("p.json") == {"test_task.py::test_bench": [1.0]}
"""


def test_the_files_are_whole_after_each_test(run):
    # Upstream writes when the session ends: a crash leaves nothing.
    run(GROWING, *OUT).assert_outcomes(passed=3)


CRASH = """
def test_first(): pass

@pytest.mark.performance
def test_bench(profile_store, request): record(profile_store, request, 1.0)

def test_crashes(): os.kill(os.getpid(), 9)

def test_never(): pass
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_crash_leaves_what_was_known_and_says_which_test_it_was(run, pytester, workers):
    words = ["-n", "1", "--max-worker-restart=0"] if workers else []
    result = run(CRASH, *OUT, *words, process=True)
    assert result.ret != 0
    correct = json.loads((pytester.path / "c.json").read_text())
    assert correct["test_task.py::test_first"] is True
    assert correct["test_task.py::test_crashes"] is False
    assert "test_task.py::test_never" not in correct
    assert json.loads((pytester.path / "p.json").read_text()) == {"test_task.py::test_bench": [1.0]}
    assert sorted(path.name for path in pytester.path.glob("*.json*")) == ["c.json", "p.json"]


def test_what_an_earlier_run_left_is_not_this_run_s(run, pytester):
    (pytester.path / "p.json").write_text('{"old": [1.0]}')
    (pytester.path / "c.json").write_text('{"old": true}')
    run("def test_broken(: pass", *OUT)
    assert _read(pytester, "p.json") == _read(pytester, "c.json") == {}


def test_folders_are_made_and_links_are_kept(run, pytester):
    real = pytester.path / "real.json"
    real.write_text("old")
    (pytester.path / "c.json").symlink_to(real)
    run("def test_x(): pass", "--correctness-out=c.json", "--performance-out=a/b/p.json")
    assert (pytester.path / "c.json").is_symlink()
    assert json.loads(real.read_text()) == {"test_task.py::test_x": True}
    assert json.loads((pytester.path / "a/b/p.json").read_text()) == {}


def test_a_file_that_can_no_longer_be_written_fails_the_run(run, pytester):
    source = "def test_x():\n    import shutil\n    shutil.rmtree('out')\n"
    result = run(source, "--correctness-out=out/c.json")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_reader_never_meets_half_a_file(tmp_path, monkeypatch):
    path = tmp_path / "p.json"
    file = ResultFile("--performance-out", path)
    file.put("a", [1.0])

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "write_text", full)
    file.put("b", [2.0])
    assert file.failed
    assert json.loads(path.read_text()) == {"a": [1.0]}


def test_runtimes_of_a_test_without_the_mark_are_kept_too(run, pytester):
    source = "def test_x(profile_store, request): record(profile_store, request, 1.0)"
    run(source, *OUT)
    assert json.loads((pytester.path / "p.json").read_text()) == {"test_task.py::test_x": [1.0]}
    assert json.loads((pytester.path / "c.json").read_text()) == {"test_task.py::test_x": True}


def _summary(whose):
    return [
        "*= kernel benchmarks =*",
        f"{HERE}test_bench{whose}: median 2 ms, mean 2 ms, 2 trials",
        f"not counted: {HERE}test_other{whose}: median 9 ms, mean 9 ms, 1 trial; a file's *",
    ]


@pytest.mark.parametrize("whose", [[], ["--ref"]])
def test_the_first_benchmark_counts_and_the_others_are_named(run, whose):
    result = run(TASK, *whose)
    result.stdout.fnmatch_lines(_summary(" (reference)" if whose else ""))
    result.stdout.no_fnmatch_line("*warning: *no test is marked*")


def test_a_benchmark_counts_in_all_its_parameters_and_in_each_file(run, pytester):
    source = (
        "@pytest.mark.performance\n@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_bench(profile_store, request, n): record(profile_store, request, n)\n"
    )
    pytester.makepyfile(test_another=HEAD + source)
    result = run(source)
    result.assert_outcomes(passed=4)
    lines = [line for line in result.outlines if re.search(r"median|not counted", line)]
    assert len(lines) == 4
    assert not any("not counted" in line for line in lines)


def test_the_first_counts_as_it_stands_in_the_file_not_as_it_was_chosen(run):
    result = run(TASK, "-k", "test_other")
    result.stdout.fnmatch_lines([f"not counted: {HERE}test_other: *"])


WITHOUT = "class TestIt(TestBase):\n    def test_right(self): pass\n"
WARNING = "warning: test_task.py: no test is marked pytest.mark.performance*exactly one benchmark"


def test_a_task_without_a_benchmark_is_warned_about(run):
    result = run(WITHOUT)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([WARNING])


QUIET = {
    "one_test": (TASK, [f"{HERE}test_right"]),
    "deselected": (TASK, ["-m", "not performance", "-k", "right"]),
    "no_task": ("def test_x(): pass", []),
}


@pytest.mark.parametrize("case", QUIET)
def test_nothing_is_said_where_nothing_is_known_to_be_missing(run, case):
    source, words = QUIET[case]
    result = run(source, *words)
    result.stdout.no_fnmatch_line("*kernel benchmarks*")


MEASURED = """
class TestIt(TestBase):
    def test_right(self): pass
    def test_wrong(self): assert 0, "off by one"
    def test_skipped(self): pytest.skip("not here")
    def test_setup(self, breaks): pass
    @pytest.mark.performance
    @pytest.mark.parametrize("n", [64])
    def test_bench(self, measure_runtime, n): measure_runtime(lambda: None, None)

def test_ordinary(): pass
"""


def test_each_task_s_test_is_told_to_the_session_s_events(run, pytester, monkeypatch):
    log = pytester.path / "events.jsonl"
    monkeypatch.setenv("OPTEST_EVENTS", str(log))
    monkeypatch.setenv("OPTEST_BUDGET_S", "0.02")
    monkeypatch.setenv("OPTEST_CACHE", "warm")
    run(MEASURED, "--ref")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    names = ["test_bench[64]", "test_right", "test_setup", "test_skipped", "test_wrong"]
    for event in ("started", "finished"):
        found = [line["id"].removeprefix(HERE) for line in lines if line["event"] == event]
        assert sorted(found) == names
    ended = {line["id"].removeprefix(HERE): line for line in lines if line["event"] == "finished"}
    assert {name: line["status"] for name, line in ended.items()} == {
        "test_bench[64]": "passed",
        "test_right": "passed",
        "test_setup": "error",
        "test_skipped": "skipped",
        "test_wrong": "failed",
    }
    assert "off by one" in ended["test_wrong"]["reason"]
    assert "not here" in ended["test_skipped"]["reason"]
    bench = ended["test_bench[64]"]
    assert bench["reference"] is bench["counted"] is True
    assert bench["row"]["us"]["n"] >= len(bench["runtimes_ms"]) >= 10
    started = next(line for line in lines if line["id"].endswith("test_bench[64]"))
    assert started["arguments"] == {"n": 64}


def test_the_environment_is_left_as_it_was(run, monkeypatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # the inner run's ends with its tests
    before = dict(os.environ)
    run(TASK, *OUT)
    assert dict(os.environ) == before
