"""``pytest op_tests``: items, ids, skips, failures."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import pytest

# pytester forgets the modules that an inner run imports; torch does not bear being imported twice.
import optest.test_common
import optest.testing.collecting
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
            "*alone: OPTEST_ONLY='test_op.py::test_first[[]m=2-kind=wrong]' python *",
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
    result.stdout.fnmatch_lines(["*SMOKE='-m 2': expected a list of command-line words*"])
    assert result.ret != 0


def test_importing_the_plugin_does_not_import_torch(pytester):
    code = "import sys, optest.testing.plugin; print('torch' in sys.modules)"
    assert pytester.run(sys.executable, "-c", code).stdout.lines[-1] == "False"
