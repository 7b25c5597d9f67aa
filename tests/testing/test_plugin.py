"""``pytest op_tests``: items, ids, skips, failures."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET

import pytest

# pytester forgets the modules that an inner run imports; torch does not bear being imported twice.
import optest.cases.collecting
import optest.test_common
import optest.testing.items  # noqa: F401

pytest_plugins = ["pytester"]

OP = """
import argparse, torch
from optest import dtypes, logger
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SMOKE = ["-m", "2", "3"]

@benchmark()
def test_first(m, kind):
    x = torch.randn(m, 4)
    out, us = run_perftest(lambda: x * (3 if kind == "wrong" else 2))
    if kind == "raises":
        raise RuntimeError("lost")
    return {"us": us, "err": checkAllclose(x * 2, out, msg="cpp")}

@benchmark()
def test_second(m):
    assert m < 100
    return {"us": 1.0}

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", type=int, nargs="+", default=[500])
    parser.add_argument("-k", nargs="+", default=["ok"])
    args = parser.parse_args()
    summarize("first", [test_first(m, k) for k in args.k for m in args.m])
    summarize("second", [test_second(m) for m in args.m])

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def run(pytester):
    def go(source, *args, name="test_op"):
        pytester.makepyfile(**{name: source})
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *args)

    return go


def test_each_case_is_an_item_with_its_id(run):
    result = run(OP, "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        ["test_op.py::test_first[[]m=2-kind=ok] PASSED*", "*::test_second[[]m=3] PASSED*"]
    )


def test_a_keyword_and_an_id_select(run, pytester):
    run(OP, "-k", "second").assert_outcomes(passed=2, deselected=2)
    result = run(OP, "test_op.py::test_first[m=3-kind=ok]")
    result.assert_outcomes(passed=1)


def test_full_runs_the_default_sweep(run):
    result = run(OP, "--optest-full")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*AssertionError*"])


def test_a_failing_check_and_an_exception_fail_their_items_alone(run):
    source = OP.replace(
        'SMOKE = ["-m", "2", "3"]', 'SMOKE = ["-m", "2", "-k", "ok", "wrong", "raises"]'
    )
    result = run(source)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "FAILED test_op.py::test_first[[]m=2-kind=wrong]*",
            "*alone: OPTEST_ONLY='test_op.py::test_first[[]m=2-kind=wrong]' *",
            "ERROR test_op.py::test_first[[]m=2-kind=raises]*",
            "*RuntimeError: lost*",
        ]
    )


def test_x_stops_at_the_first(run):
    source = OP.replace('SMOKE = ["-m", "2", "3"]', 'SMOKE = ["-m", "2", "-k", "wrong", "ok"]')
    run(source, "-x").assert_outcomes(failed=1)


def test_junit_names_the_cases(run, pytester):
    run(OP, "--junitxml=report.xml")
    names = {case.get("name") for case in ET.parse(pytester.path / "report.xml").iter("testcase")}
    assert "test_first[m=2-kind=ok]" in names


def test_two_workers(pytester):
    pytester.makepyfile(test_op=OP)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2")
    result.assert_outcomes(passed=4)


GATED = """
from optest import logger
from optest.test_common import benchmark, get_gfx

@benchmark()
def test_op(m): ...

def main():
    if get_gfx() not in ["gfx942"]:
        logger.warning("op unsupported on %s; skipping", get_gfx())
        return
    test_op(1)
"""


def test_a_gated_file_is_a_skip_with_its_reason(run):
    result = run(GATED, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*op unsupported on cpu; skipping*"])


WHOLE = """
import torch, pandas as pd
from optest.test_common import benchmark, checkAllclose, run_perftest

@benchmark()
def test_op(m):
    x = torch.randn(m)
    out, us = run_perftest(torch.neg, x)
    return {"ck us": us, "err": checkAllclose(-x, out + BIAS, printLog=False)}

def main():
    df = pd.DataFrame([test_op(m) for m in (1, 2)])
    df["ck us"].mean()
"""


@pytest.mark.parametrize(("bias", "outcome"), [("0", "passed"), ("1", "failed")])
def test_a_main_that_cannot_bear_collection_is_run_whole(run, bias, outcome):
    result = run(WHOLE.replace("BIAS", bias), "-v")
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(["*test_op.py::main*"])


def test_a_main_that_runs_nothing_fails_loudly(run):
    source = OP.replace('SMOKE = ["-m", "2", "3"]', 'SMOKE = ["-m"]')
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*main() exited 2*"])


def test_an_empty_sweep_is_not_a_pass(run):
    source = OP.replace('nargs="+", default=[500]', 'nargs="*", default=[500]').replace(
        'SMOKE = ["-m", "2", "3"]', 'SMOKE = ["-m"]'
    )
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no case ran; collection had said: main() asked for no case*"])


def test_an_ordinary_test_that_ignores_the_verdict_fails(run):
    result = run(
        """
        import torch
        from optest.test_common import checkAllclose
        def test_ignored():
            checkAllclose(torch.ones(3), torch.zeros(3), printLog=False)
        def test_fine():
            checkAllclose(torch.ones(3), torch.ones(3))
        """
    )
    result.assert_outcomes(passed=1, failed=1)


def test_a_plain_test_function_is_still_pytests(run):
    run("def test_x(): assert 0").assert_outcomes(failed=1)


def test_an_imported_benchmark_is_not_collected_twice(run, pytester):
    pytester.makepyfile(helper_op=OP)
    result = run("from helper_op import test_first, test_second\ndef test_own(): pass")
    result.assert_outcomes(passed=1)


def test_a_bad_smoke_list_is_named(run):
    result = run(OP.replace('SMOKE = ["-m", "2", "3"]', 'SMOKE = "-m 2"'))
    result.stdout.fnmatch_lines(
        ["test_op.py: SMOKE='-m 2': expected a list of command-line words*"]
    )
    result.stdout.no_fnmatch_line("*plugin.py*")
    assert result.ret != 0


def test_importing_the_plugin_does_not_import_torch(pytester):
    code = "import sys, optest.testing.plugin; print('torch' in sys.modules)"
    assert pytester.run(sys.executable, "-c", code).stdout.lines[-1] == "False"


HEAD = """
import pytest, torch
from optest.test_common import benchmark, checkAllclose

def check(right=True, msg="looked"):
    return checkAllclose(torch.ones(3), torch.ones(3) * right, msg=msg, printLog=False)

@pytest.fixture
def wrong_before():
    check(False, "in setup")

@pytest.fixture
def wrong_after():
    yield
    check(False, "in teardown")
"""

# Functions that no main() calls: what pytest makes of each, and words of its report.
WITHOUT_MAIN = {
    "no_arguments": ("def test_f(): return {'err': check()}", {"passed": 1}, ""),
    "no_arguments_wrong": ("def test_f(): return {'err': check(False)}", {"failed": 1}, "*looked*"),
    "a_default": ("def test_f(n=3): return {'err': check(n == 2)}", {"failed": 1}, "*looked*"),
    "a_fixture": ("def test_f(tmp_path): return {'err': check()}", {"passed": 1}, ""),
    "an_argument": (
        "def test_f(n): return {'err': check()}",
        {"errors": 1},
        "*test_op.py::test_f: nothing gives its argument 'n': give the file a main()*",
    ),
}


@pytest.mark.parametrize("case", WITHOUT_MAIN)
@pytest.mark.parametrize("where", ["module", "class"])
def test_a_benchmark_that_no_main_calls_is_pytests_own(run, case, where):
    function, outcomes, words = WITHOUT_MAIN[case]
    source = HEAD + f"@benchmark()\n{function}\n"
    if where == "class":
        method = function.replace("(", "(self, ", 1)
        source = HEAD + f"class TestIt:\n    @benchmark()\n    {method}\n"
        words = words.replace("::test_f", "::TestIt::test_f")
    result = run(source)
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines([words] if words else [])


PARAMETRISED = """
@pytest.mark.parametrize("n", [1, 2])
@benchmark()
def test_p(n): return {"err": check(n < 2)}
"""


def test_a_parametrised_benchmark_is_an_item_each_without_a_warning(run):
    result = run(HEAD + PARAMETRISED, "-W", "error")
    result.assert_outcomes(passed=1, failed=1, warnings=0)
    result.stdout.fnmatch_lines(["FAILED test_op.py::test_p[[]n=2]*"])


BESIDE_MAIN = """
@benchmark()
def test_called(m): return {"err": check()}
@benchmark()
def test_left_out(m): return {"err": check()}
class TestIt:
    @benchmark()
    def test_called_too(self, m=1): return {"err": check()}
    @benchmark()
    def test_method(self): return {"err": check(False)}
def main():
    test_called(1)
    TestIt().test_called_too(2)
"""


def test_beside_a_main_what_is_meant_for_pytest_is_not_lost(run):
    # main() may leave plain functions out of a smoke run; nothing but pytest calls the others.
    result = run(HEAD + BESIDE_MAIN + PARAMETRISED, "-v")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(["*::test_method FAILED*", "*::test_called_too[[]m=2] PASSED*"])


def test_an_imported_class_is_not_collected_twice(run, pytester):
    pytester.makepyfile(helper_op=HEAD + BESIDE_MAIN)
    run("from helper_op import TestIt\ndef test_own(): pass").assert_outcomes(passed=1)


# Checks that fail where no case runs, or where pytest ends the item by another word.
ELSEWHERE = {
    "in_main": (
        (
            "@benchmark()\ndef test_f(n): return {'err': check()}\n"
            "def main():\n    check(False, 'sanity')\n    test_f(1)"
        ),
        {"failed": 1},
        "*sanity*",
    ),
    "in_setup": ("def test_f(wrong_before): pass", {"errors": 1}, "*in setup*"),
    "in_teardown": ("def test_f(wrong_after): pass", {"passed": 1, "errors": 1}, "*in teardown*"),
    "before_a_skip": (
        "def test_f():\n    check(False)\n    pytest.skip()",
        {"failed": 1},
        "*looked*",
    ),
    "case_skips": (
        "@benchmark()\ndef test_f(n): pytest.skip('not here')\ndef main(): test_f(1)",
        {"skipped": 1},
        "*not here*",
    ),
    "case_skips_after_a_check": (
        (
            "@benchmark()\ndef test_f(n):\n    check(False)\n    pytest.skip('not here')\n"
            "def main(): test_f(1)"
        ),
        {"failed": 1},
        "FAILED test_op.py::test_f[[]n=1]*",
    ),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_check_that_fails_elsewhere_is_not_lost(run, case):
    source, outcomes, words = ELSEWHERE[case]
    result = run(HEAD + source, "-rs")
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines([words])


NOT_RUN = {
    "only": ("OPTEST_ONLY", "test_op.py::test_first[[]m=2*", {"passed": 1, "skipped": 3}),
    "only_none": ("OPTEST_ONLY", "other.py::test_x[]", {"skipped": 4}),
    "collect": ("OPTEST_MODE", "collect", {"skipped": 4}),
}


@pytest.mark.parametrize("case", NOT_RUN)
def test_an_item_that_ran_nothing_is_a_skip(run, monkeypatch, case):
    name, value, outcomes = NOT_RUN[case]
    monkeypatch.setenv(name, value.replace("[[]", "["))
    result = run(OP, "-rs")
    result.assert_outcomes(**outcomes)
    reason = "OPTEST_MODE=collect" if case == "collect" else "not on OPTEST_ONLY"
    result.stdout.fnmatch_lines([f"SKIPPED*{reason}"])


@pytest.mark.parametrize(
    ("name", "value"), [("OPTEST_ONLY", "a.py::b[]"), ("OPTEST_MODE", "collect")]
)
@pytest.mark.parametrize("source", [WHOLE.replace("BIAS", "0"), HEAD + PARAMETRISED])
def test_other_items_that_ran_nothing_are_skips_too(run, monkeypatch, name, value, source):
    monkeypatch.setenv(name, value)
    outcomes = run(source).parseoutcomes()
    assert set(outcomes) == {"skipped"}


BAD = [
    ("OPTEST_MODE", "chekc", "*OPTEST_MODE='chekc': expected one of run, check, collect*"),
    ("OPTEST_SEED", "x", "*OPTEST_SEED='x': expected an integer*"),
    ("OPTEST_ONLY", "no/such/file", "*OPTEST_ONLY='no/such/file': expected a file of case ids*"),
    ("OPTEST_EVENTS", "/dev/null/x", "*OPTEST_EVENTS='/dev/null/x': expected a file*"),
]


@pytest.mark.parametrize(("name", "value", "words"), BAD)
def test_a_bad_variable_is_a_usage_error(run, monkeypatch, name, value, words):
    monkeypatch.setenv(name, value)
    result = run(OP)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([words])
    assert "Traceback" not in result.stderr.str()


def test_a_repeated_case_keeps_its_id_when_it_runs_alone(run, pytester, monkeypatch):
    log = pytester.path / "events.jsonl"
    monkeypatch.setenv("OPTEST_EVENTS", str(log))
    source = OP.replace('"-m", "2", "3"', '"-m", "2", "2"')
    for arguments in ([], ["test_op.py::test_first[m=2-kind=ok]#2"]):
        run(source, *arguments).assert_outcomes(passed=1 if arguments else 4)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    started = [line for line in lines if line["event"] == "started" and "#2" in line["id"]]
    assert [line["id"].partition("::")[2] for line in started] == [
        "test_first[m=2-kind=ok]#2",
        "test_second[m=2]#2",
        "test_first[m=2-kind=ok]#2",
    ]
    assert started[0]["seed"] == started[2]["seed"]


WATCHED = """
import json, torch
from optest.cases import session as sessions
from optest.test_common import benchmark, checkAllclose, run_perftest

PASSES = []

def wavering(x):
    PASSES.append(1)
    return x * 2 + 1e-4 * len(PASSES)

@benchmark()
def test_op(m):
    x = torch.randn(64)
    out, us = run_perftest(wavering if m == 2 else lambda x: x * 2, x)
    return {"us": us, "err": checkAllclose(x * 2, out, msg="op")}

def main():
    for m in (1, 2):
        test_op(m)

def test_level():
    print("level", sessions.current().guards, sessions.current().mode)
"""


@pytest.mark.parametrize(
    ("variable", "option", "level"),
    [
        (None, None, "full"),
        (None, "off", "off"),
        (None, "cheap", "cheap"),
        (None, "full", "full"),
        ("cheap", None, "cheap"),
        ("off", None, "off"),
        ("full", "cheap", "cheap"),
        ("off", "full", "full"),
    ],
)
def test_guards_are_full_unless_told_otherwise(run, monkeypatch, variable, option, level):
    """The option wins over the variable; a kernel that wavers fails under full guards alone."""
    if variable is not None:
        monkeypatch.setenv("OPTEST_GUARDS", variable)
    result = run(WATCHED, "-s", *(["--guards", option] if option else []))
    failed = int(level == "full")
    result.assert_outcomes(passed=3 - failed, failed=failed)
    result.stdout.fnmatch_lines([f"*level {level} check*"])
    if failed:
        result.stdout.fnmatch_lines(
            ["*test_op[[]m=2]*", "*repeatability: a later call on the same inputs gave other bits*"]
        )


def test_guards_of_another_name_are_a_usage_error(run):
    result = run(WATCHED, "--guards", "some")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--guards*invalid choice*some*"])


def test_findings_and_what_is_unguarded_are_events(run, pytester, monkeypatch):
    """A runner that reads the events would otherwise see a failure without its reason."""
    sink = pytester.path / "events.jsonl"
    monkeypatch.setenv("OPTEST_EVENTS", str(sink))
    run(WATCHED.replace("torch.randn(64)", "torch.arange(64.0)"), "-s")
    events = [json.loads(line) for line in sink.read_text().splitlines()]
    plain, wavers = (event for event in events if event["event"] == "finished")
    assert plain["findings"] == []
    assert plain["unguarded"] == [
        "fresh inputs: no candidate was given other inputs in the second pass"
    ]
    (finding,) = wavers["findings"]
    assert set(finding) == {"guard", "evidence", "meaning", "declarable"}
    assert (finding["guard"], finding["declarable"]) == ("repeatability", True)
    assert wavers["reason"] == f"{finding['guard']}: {finding['evidence']}; {finding['meaning']}"
    assert (plain["status"], wavers["status"]) == ("passed", "failed")
