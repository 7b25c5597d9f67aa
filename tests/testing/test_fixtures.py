"""The fixtures of a task and what holds while its tests run."""

from __future__ import annotations

import os

import pytest

import optest.testing.assertions
import optest.testing.base
import optest.testing.items
import optest.testing.measuring  # noqa: F401 - torch does not bear a second import
from optest.errors import UsageError
from optest.testing import profiler
from optest.testing.profiler import LABEL, profiler_session
from optest.testing.store import ProfileStore, Trials

pytest_plugins = ["pytester"]

HEAD = """
import os, time
import pytest, torch
from optest.testing import TestBase, assert_allclose, detect_profiler, profiler_session

@pytest.fixture(scope="session")
def kernel(use_reference):
    return torch.exp if use_reference else lambda x: x.exp()

@pytest.fixture(scope="session")
def device():
    return "cpu"

@pytest.fixture
def data():
    return (torch.randn(64),)

"""


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("OPTEST_BUDGET_S", "0.02")
    monkeypatch.setenv("OPTEST_CACHE", "warm")
    monkeypatch.setenv("OPTEST_NATIVE", "off")  # pytester moves HOME: csrc would be built anew

    def go(source, *args):
        pytester.makepyfile(test_task=HEAD + source)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *args)

    return go


def bench(body, names="profile_store, request", name="bench"):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"@pytest.mark.performance\ndef test_{name}({names}):\n{lines}\n"


HELPERS = {
    "torch": ("measure_runtime_torch", "measure_runtime_torch(kernel, device, args=data)"),
    "alias": ("torch_profile", "torch_profile(kernel, device, args=data)"),
    "plain": ("measure_runtime", "measure_runtime(kernel, lambda: None, data)"),
}


@pytest.mark.parametrize("whose", [[], ["--ref"]])
def test_each_helper_times_and_records(run, whose):
    source = ""
    for case, (name, call) in HELPERS.items():
        body = (
            f"got = {call}\nassert profile_store[request.node.nodeid] == got\nassert len(got) > 9"
        )
        source += bench(body, f"kernel, device, data, profile_store, request, {name}", case)
    run(source, *whose).assert_outcomes(passed=len(HELPERS))


def test_a_list_of_the_caller_gets_the_runtimes_as_well_as_the_store(run):
    body = (
        "mine = []\nmeasure_runtime(kernel, None, data, output=mine)\n"
        "assert mine and profile_store[request.node.nodeid] == mine"
    )
    run(bench(body, "kernel, data, profile_store, request, measure_runtime")).assert_outcomes(
        passed=1
    )


WITHIN = "with profiler_session(detect_profiler()):\n    runtimes = [1.5, 2.5]\n"
CUSTOM = {
    "assigned": WITHIN + "profile_store[request.node.nodeid] = runtimes",
    "extended": WITHIN + "profile_store[request.node.nodeid].extend(runtimes)",
    "added": WITHIN + "profile_store[request.node.nodeid] += runtimes",
    "appended": WITHIN + "profile_store[request.node.nodeid].append(1.5)",
    "to_the_running_test": WITHIN + "profile_store.extend(runtimes)",
    "setdefault": WITHIN + "profile_store.setdefault(request.node.nodeid, []).append(1.5)",
    "update": WITHIN + "profile_store.update({request.node.nodeid: runtimes})",
}


def test_a_custom_benchmark_records_as_upstream_s_do(run):
    result = run("".join(bench(body, name=case) for case, body in CUSTOM.items()))
    result.assert_outcomes(passed=len(CUSTOM))
    result.stdout.fnmatch_lines([f"*test_task.py::test_{case}: median *" for case in CUSTOM])


def test_trials_outside_a_session_are_an_error_that_says_what_to_write(run):
    # Upstream: runtimes, and a profile without a kernel.
    outside = {
        case: "\n".join(["runtimes = [1.5]", body.splitlines()[-1].strip()])
        for case, body in CUSTOM.items()
    }
    result = run("".join(bench(body, name=case) for case, body in outside.items()))
    result.assert_outcomes(failed=len(outside))
    for case in outside:
        result.stdout.fnmatch_lines(
            [
                f"*::test_{case}: runtimes were recorded and no profiler_session was opened*",
                "*from optest.testing import detect_profiler, profiler_session",
                "*with profiler_session(detect_profiler()):",
            ]
        )
    assert "Traceback" not in result.stdout.str()


def test_a_session_of_another_test_is_not_this_test_s(run):
    source = (
        "def test_first(profile_store):\n    with profiler_session(None):\n        pass\n"
        + bench("profile_store[request.node.nodeid] = [1.0]")
    )
    run(source).assert_outcomes(passed=1, failed=1)


def test_a_test_of_another_file_without_fixtures_may_do_as_it_likes(run):
    # A project that uses the mark for its own purposes is none of ours.
    run("@pytest.mark.performance\ndef test_other():\n    pass").assert_outcomes(passed=1)


NOTHING = {
    "no_call": bench("pass", "profile_store", "no_call"),
    "empty": bench("profile_store[request.node.nodeid] = []", name="empty"),
    "in_class": (
        "class TestIt(TestBase):\n    @pytest.mark.performance\n"
        "    def test_in_class(self, kernel): kernel(torch.ones(2))\n"
    ),
    "other_id": bench(WITHIN + "profile_store['other'] = runtimes", name="other_id"),
}


@pytest.mark.parametrize("whose", [[], ["--ref"]])
def test_a_benchmark_that_records_nothing_fails(run, whose):
    result = run("".join(NOTHING.values()), *whose)
    result.assert_outcomes(failed=len(NOTHING))
    for case in NOTHING:
        result.stdout.fnmatch_lines([f"*::test_{case}: marked performance, and it recorded no *"])


def test_a_benchmark_that_is_skipped_recorded_nothing_and_does_not_fail(run):
    run(bench("pytest.skip('not here')")).assert_outcomes(skipped=1)


MEMO = """
memory = {}
def remembers(x):
    key = float(x.sum())
    if key not in memory:
        time.sleep(0.02)
        memory[key] = x * 2
    return memory[key]

"""


@pytest.mark.parametrize("hidden", [False, True])
def test_a_refused_measurement_fails_its_test_also_where_the_test_hides_it(run, hidden):
    body = "measure_runtime(remembers, None, data)"
    if hidden:
        body = f"try:\n    {body}\nexcept Exception:\n    pass\n{WITHIN}"
        body += "profile_store[request.node.nodeid] = runtimes"
    result = run(MEMO + bench(body, "data, measure_runtime, profile_store, request"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the kernel remembers its answers*"])
    assert "Traceback" not in result.stdout.str()
    assert "site-packages" not in result.stdout.str()


def test_a_task_that_replaces_a_clock_when_imported_is_refused(run):
    source = "real = time.perf_counter\ntime.perf_counter = lambda: real() / 1000\n"
    source += bench("measure_runtime(kernel, None, data)", "kernel, data, measure_runtime")
    import time

    real = time.perf_counter
    try:
        result = run(source)
    finally:
        time.perf_counter = real
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*time.perf_counter was replaced by <lambda> (test_task.py:*"])


def test_a_task_that_replaces_what_measures_is_refused(run, monkeypatch):
    from optest.testing import measuring

    # Put back afterwards: the inner run shares this process.
    monkeypatch.setattr(measuring, "measure_runtime", measuring.measure_runtime)
    source = (
        "from optest.testing import measuring\n"
        "measuring.measure_runtime = lambda *_, **__: [0.001]\n"
    )
    source += bench("measure_runtime(kernel, None, data)", "kernel, data, measure_runtime")
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*optest.testing.measuring.measure_runtime was replaced by *"])


def test_a_profiler_is_told_of_the_trials_and_of_the_end(run, pytester, monkeypatch):
    log = pytester.path / "log"
    command = pytester.path / "unitrace"
    command.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    command.chmod(0o755)
    monkeypatch.setenv("KERNELFOUNDRY_unitrace_cmd", str(command))
    monkeypatch.setenv("UNITRACE_VERSION", "2.0")
    monkeypatch.setenv("UNITRACE_Session", "s")
    body = "measure_runtime(kernel, None, data)"
    result = run(bench(body, "kernel, data, measure_runtime"))
    result.assert_outcomes(passed=1)
    assert log.read_text().splitlines() == ["--resume s", "--pause s", "--stop s"]


ZEROING = """
def zeroes(x):
    x.zero_()
    return x.exp()

def adds(x):
    return x.add_(1).exp()

"""
INPUTS = {
    "zeroed": "assert_allclose(zeroes(*data), torch.exp(*data))",
    "cloned": "assert zeroes(data[0].clone()).sum() == 64",
    "changed": "x = data[0].clone()\nassert_allclose(adds(*data), (x + 1).exp())",
    "output": "torch.neg(data[0], out=out)",
    "output_zeroed": "out.zero_()",
}


def test_a_kernel_that_zeroes_its_input_does_not_pass_on_zeros(run):
    # exp(0) is 1 for kernel and reference alike: upstream passes a kernel that computes nothing.
    source = "@pytest.fixture\ndef out():\n    return torch.zeros(64)\n\nclass TestIt(TestBase):\n"
    for case, body in INPUTS.items():
        lines = "\n".join(f"        {line}" for line in body.splitlines())
        source += f"    def test_{case}(self, data, out):\n{lines}\n"
    result = run(ZEROING + source)
    result.assert_outcomes(failed=1, passed=len(INPUTS) - 1)
    result.stdout.fnmatch_lines(["*::test_zeroed: data held data when the test began and one*"])


def test_a_kernel_that_is_to_change_its_input_may(run):
    source = (
        "class TestIt(TestBase):\n    @pytest.mark.writes_inputs\n"
        "    def test_fill(self, data): zeroes(*data)\n"
    )
    run(ZEROING + source).assert_outcomes(passed=1)


def test_a_changed_input_is_warned_about(run, capfd):
    source = "class TestIt(TestBase):\n    def test_adds(self, data): adds(*data)\n"
    result = run(ZEROING + source, "-s")
    result.assert_outcomes(passed=1)
    words = result.stderr.str() + capfd.readouterr().err
    assert "test_adds changed data: call the reference before the kernel" in words


def test_the_label_names_the_running_test_and_is_taken_back(run, monkeypatch):
    monkeypatch.setenv(LABEL, "outer")
    source = (
        "def test_label(use_reference, profiler_test_label, request):\n"
        f"    assert os.environ[{LABEL!r}] == profiler_test_label == request.node.nodeid\n"
        f"def test_other():\n    assert os.environ[{LABEL!r}] == 'outer'\n"
    )
    run(source).assert_outcomes(passed=2)
    assert os.environ[LABEL] == "outer"


DEPENDENT = """
class TestIt(TestBase):
    @pytest.mark.dependency
    def test_shape(self, kernel, data): assert kernel(*data).shape == (OK,)

    @pytest.mark.dependency(depends=["TestIt::test_shape"])
    def test_values(self, kernel, data): assert_allclose(kernel(*data), torch.exp(*data))
"""


@pytest.mark.parametrize(
    ("ok", "outcomes"), [("64", {"passed": 2}), ("65", {"failed": 1, "skipped": 1})]
)
def test_dependencies_between_tests_hold(run, ok, outcomes):
    run(DEPENDENT.replace("OK", ok)).assert_outcomes(**outcomes)


def test_a_failed_check_that_a_task_ignores_fails_it(run):
    source = (
        "from optest.test_common import checkAllclose\n"
        "class TestIt(TestBase):\n    def test_ignored(self, data):\n"
        "        checkAllclose(data[0], data[0] + 1, printLog=False)\n"
    )
    run(source).assert_outcomes(failed=1)


@pytest.mark.parametrize("mode", ["check", "collect"])
def test_where_nothing_is_to_be_timed_a_benchmark_is_a_skip(run, monkeypatch, mode):
    monkeypatch.setenv("OPTEST_MODE", mode)
    body = "measure_runtime(kernel, None, data)"
    result = run(bench(body, "kernel, data, measure_runtime"), "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"*OPTEST_MODE={mode}: nothing is timed*"])


@pytest.mark.parametrize(
    "value", [0.0, -1.0, float("nan"), float("inf"), "1.0", None, True, [1.0]], ids=repr
)
def test_what_no_runtime_can_be_is_refused(value):
    store = ProfileStore()
    store.begin("t")
    with profiler_session(None):
        with pytest.raises(UsageError, match="expected milliseconds"):
            store.append(value)
        with pytest.raises(UsageError, match="expected milliseconds"):
            store["t"] = [1.0, value]
    assert store["t"] == []


@pytest.mark.parametrize("value", ["12", 3.0, None])
def test_what_is_no_list_is_refused(value):
    store = ProfileStore()
    with pytest.raises(UsageError, match="expected a list of milliseconds"):
        store["t"] = value


def test_an_id_is_a_text():
    with pytest.raises(UsageError, match="expected a test's id"):
        ProfileStore()[3] = [1.0]


def test_numbers_of_any_library_become_floats():
    import numpy as np
    import torch

    store = ProfileStore()
    store.begin("t")
    with profiler_session(None):
        store["t"] = np.array([1.0, 2.0])
        store["t"].append(torch.tensor(3.0))
        store["t"] += [4]
    assert store["t"] == [1.0, 2.0, 3.0, 4.0]
    assert all(type(value) is float for value in store["t"])
    assert isinstance(store["t"], Trials)
    assert profiler.opened() > 0
