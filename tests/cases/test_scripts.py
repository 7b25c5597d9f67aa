"""Op tests run as scripts: exit codes, what is printed where, the rerun command."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap

import pytest

HEAD = """
import argparse, sys, torch
from optest import dtypes, logger
from optest.test_common import *

@benchmark()
def test_op(m, kind):
    x = torch.randn(m, 8)
    candidates = {"right": lambda: x * 2}
    if kind == "wrong":
        candidates["wrong"] = lambda: x * 3
    if kind == "raises":
        candidates["raises"] = lambda: 1 / 0
    if kind == "interrupt" and m == 3:
        raise KeyboardInterrupt
    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        out, us = run_perftest(fn, num_iters=10)
        ret[f"{name} us"] = us
        ret[f"{name} err"] = checkAllclose(x * 2, out, msg=name)
    return ret
"""

MAIN = """
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", type=int, nargs="*", default=[2, 3, 4])
    parser.add_argument("-k", nargs="*", default=["ok"])
    args = parser.parse_args()
    summarize("op", [test_op(m, k) for k in args.k for m in args.m])

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path):
    def run(source, *argv, **environ):
        path = tmp_path / "test_op.py"
        path.write_text(textwrap.dedent(source))
        env = {**os.environ, "OPTEST_CACHE": "warm", **environ}
        command = [sys.executable, str(path), *argv]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, cwd=tmp_path, timeout=120
        )

    return run


def test_all_right_is_0_with_the_table_on_stdout_and_the_rest_on_stderr(script):
    done = script(HEAD + MAIN)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    assert lines[0] == "op summary (markdown):"
    assert re.sub(r"\s+", "", lines[1]) == "|m|kind|gfx|rightus|righterr|"
    assert len(lines) == 6
    assert "optest: 3 cases: 3 passed" in done.stderr


def test_a_wrong_candidate_is_1_and_its_rerun_command_runs_it_alone(script):
    done = script(HEAD + MAIN, "-k", "ok", "wrong", "-m", "2", "3")
    assert done.returncode == 1
    assert len(done.stdout.strip().splitlines()) == 7
    assert "test_op.py::test_op[m=2-kind=wrong]" in done.stderr
    command = re.search(r"alone: OPTEST_ONLY=(.*)", done.stderr)[1].replace("OPTEST_CACHE=warm", "")
    only, _, *argv = shlex.split(command)
    again = script(HEAD + MAIN, *argv[1:], OPTEST_ONLY=only)
    assert again.returncode == 1
    assert "optest: 1 case: 1 failed" in again.stderr


def test_a_raising_candidate_is_1_with_the_other_rows_intact(script):
    done = script(HEAD + MAIN, "-k", "ok", "raises", "-m", "2", "3")
    assert done.returncode == 1
    assert done.stdout.count("ZeroDivisionError: division by zero") == 2
    assert "optest: 4 cases: 2 passed, 2 error" in done.stderr


ENDS = """
import pytest, unittest
def not_here(): raise unittest.SkipTest("not here")
ENDS = {
    "skip": lambda: pytest.skip("not here"), "unittest": not_here,
    "xfail": lambda: pytest.xfail("known"), "fail": lambda: pytest.fail("wrong"),
}
"""


@pytest.mark.parametrize(
    ("kind", "code", "totals", "said"),
    [
        ("skip", 0, "2 passed, 1 skipped", "was skipped: Skipped: not here"),
        ("unittest", 0, "2 passed, 1 skipped", "was skipped: SkipTest: not here"),
        ("xfail", 0, "2 passed, 1 skipped", "was skipped: XFailed: known"),
        ("fail", 1, "2 passed, 1 error", "Failed: wrong"),
    ],
)
def test_a_word_to_pytest_in_one_case_costs_a_script_none_of_the_others(
    script, kind, code, totals, said
):
    within = "    x = torch.randn(m, 8)\n"
    source = HEAD.replace(within, f"{within}    if m == 3: ENDS[kind]()\n")
    done = script(ENDS + source + MAIN, "-k", kind, OPTEST_MODE="check")
    assert (done.returncode, f": {totals} in " in done.stderr) == (code, True), done
    assert said in done.stderr


def test_main_cannot_wash_a_failure_away(script):
    ending = """
    def main():
        try:
            test_op(2, "wrong")
        finally:
            sys.exit(0)
    if __name__ == "__main__":
        main()
    """
    assert script(HEAD + textwrap.dedent(ending)).returncode == 1


def test_a_check_outside_any_case_that_nobody_looks_at_is_1(script):
    source = """
    import torch
    from optest.test_common import checkAllclose
    checkAllclose(torch.ones(3), torch.zeros(3), printLog=False)
    """
    done = script(source)
    assert done.returncode == 1
    assert "outside any case" in done.stderr


def test_a_gated_script_is_0_and_says_why(script):
    source = HEAD + textwrap.dedent("""
    def main():
        if get_gfx() not in ["gfx942"]:
            logger.warning("op unsupported on %s; skipping", get_gfx())
            return
    main()
    """)
    done = script(source)
    assert done.returncode == 0
    assert "op unsupported on cpu" in done.stderr
    assert done.stdout == ""


def test_an_empty_sweep_is_5_and_says_why(script):
    done = script(HEAD + MAIN, "-m")
    assert done.returncode == 5
    assert "no case ran" in done.stderr


def test_help_is_0_and_a_usage_error_2(script):
    assert script(HEAD + MAIN, "-h").returncode == 0
    assert script(HEAD + MAIN, "-m", "x").returncode == 2


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("OPTEST_MODE", "fast", "OPTEST_MODE='fast': expected one of run, check, collect"),
        (
            "OPTEST_ONLY",
            "/no/such/file",
            "OPTEST_ONLY='/no/such/file': expected a file of case ids",
        ),
        ("OPTEST_EVENTS", "/proc/nothing/x", "OPTEST_EVENTS='/proc/nothing/x': expected a file"),
        ("OPTEST_BUDGET_S", "-1", "OPTEST_BUDGET_S='-1': expected a positive number"),
    ],
)
def test_a_bad_setting_is_2_and_one_line(script, name, value, words):
    done = script(HEAD + MAIN, **{name: value})
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_importing_an_op_test_does_nothing(script, tmp_path):
    script(HEAD + MAIN)
    code = "from test_op import test_op"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_interrupt_ends_cleanly_with_what_was_finished(script):
    done = script(HEAD + MAIN, "-k", "interrupt")
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert "test_op (interrupted) summary (markdown)" in done.stdout
    assert len([line for line in done.stdout.splitlines() if line.startswith("|")]) == 3


def test_a_crash_loses_at_most_the_case_it_happened_in(script, tmp_path):
    source = HEAD.replace(
        "x = torch.randn(m, 8)", "x = torch.randn(m, 8); m == 4 and __import__('os').abort()"
    )
    events = tmp_path / "events.jsonl"
    done = script(source + MAIN, OPTEST_EVENTS=str(events), OPTEST_MODE="check")
    assert done.returncode == -signal.SIGABRT
    kinds = [re.search(r'"event": "(\w+)"', line)[1] for line in events.read_text().splitlines()]
    assert kinds == ["started", "finished", "started", "finished", "started"]


def test_a_script_written_for_a_gpu_runs_on_the_cpu(script):
    source = 'import torch\ntorch.set_default_device("cuda")\n' + HEAD + MAIN
    done = script(source, OPTEST_MODE="check")
    assert done.returncode == 0, done.stderr
    assert "using the CPU" in done.stderr


def test_a_forked_child_writes_events_and_judges_itself(script, tmp_path):
    source = HEAD + textwrap.dedent("""
    import os
    def main():
        pid = os.fork()
        if pid == 0:
            test_op(2, "wrong")
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
        test_op(3, "ok")
    main()
    """)
    events = tmp_path / "events.jsonl"
    done = script(source, OPTEST_EVENTS=str(events), OPTEST_MODE="check")
    assert done.returncode == 0, done.stderr
    assert events.read_text().count('"event": "finished"') == 2
    assert "optest: 1 case: 1 failed" in done.stderr
    assert "optest: 1 case: 1 passed" in done.stderr


# In the manner of aiter's op tests: only the import lines name another library.
UPSTREAM = """
import argparse
import itertools

import optest as aiter
import pandas as pd
import torch
from optest import dtypes
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest

torch.set_default_device("cuda")

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950"]


def run_torch(x, weight, dtype=dtypes.bf16):
    return torch.matmul(x.to(dtypes.fp32), weight.to(dtypes.fp32).transpose(-1, -2)).to(dtype)


@benchmark()
def test_op(b, m, n, k, dtype, layout):
    x = torch.randn((b, m, k), dtype=dtype)
    weight = torch.randn((b, n, k), dtype=dtype)
    ref = run_torch(x, weight, dtype)
    candidates = {"bmm": lambda: torch.bmm(x, weight.transpose(1, 2))}
    if layout == "bmn":
        candidates["einsum"] = lambda: torch.einsum("bmk,bnk->bmn", x, weight)
    flops = 2 * b * m * n * k
    nbytes = (b * m * k + b * n * k + b * m * n) * x.element_size()
    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        out, us = run_perftest(fn)
        err = checkAllclose(
            ref.to(dtypes.fp32), out.to(dtypes.fp32), rtol=1e-2, atol=1e-2, msg=f"{name}: op"
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX:
        aiter.logger.warning("op unsupported on %s; skipping", get_gfx())
        return
    parser = argparse.ArgumentParser(formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-d", "--dtype", type=dtypes.str2Dtype, nargs="*", default="bf16,")
    parser.add_argument("-b", "--batch", type=int, nargs="*", default=[1, 2])
    parser.add_argument("-s", "--mnk", type=dtypes.str2tuple, nargs="*", default=[(4, 32, 64)])
    parser.add_argument("-l", "--layout", nargs="*", default=["bmn", "mbn"])
    args = parser.parse_args()
    for dtype in args.dtype:
        df = []
        for layout, b, (m, n, k) in itertools.product(args.layout, args.batch, args.mnk):
            df.append(test_op(b, m, n, k, dtype, layout))
        df = pd.DataFrame(df)
        aiter.logger.info("op summary (markdown):\\n%s", df.to_markdown(index=False))


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("argv", [(), ("-d", "bf16,"), ("-d", "bf16", "fp32")], ids=str)
def test_a_script_in_the_manner_of_aiter_runs_with_its_imports_changed(script, argv):
    done = script(UPSTREAM, *argv)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("op summary (markdown):") == (2 if "fp32" in argv else 1)
    rows = [line for line in done.stderr.splitlines() if line.startswith("|")]
    assert len(rows) == (12 if "fp32" in argv else 6)
    assert "bf16" in rows[2]


def test_such_a_script_exits_1_when_a_candidate_is_wrong(script):
    source = UPSTREAM.replace("torch.bmm(x, weight.transpose(1, 2))", "ref * 0")
    assert script(source, OPTEST_MODE="check").returncode == 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_failing_cases_of_a_pool_fail_the_script_that_shows_them(script, method):
    source = HEAD + textwrap.dedent(f"""
    import multiprocessing
    def run(m):
        return test_op(m, "wrong")
    if __name__ == "__main__":
        with multiprocessing.get_context("{method}").Pool(1) as pool:
            summarize("op", pool.map(run, [2, 3]))
    """)
    done = script(source, OPTEST_MODE="check")
    assert done.returncode == 1
    assert "2 failed in other processes" in done.stderr


@pytest.mark.parametrize("ending", ["os._exit(0)", "sys.exit(0)"])
def test_a_candidate_that_ends_the_process_does_not_end_it_well(script, ending):
    source = HEAD.replace("x * 3", f"__import__('os') and {ending}") + MAIN
    done = script(
        source.replace("import argparse", "import os, argparse"), "-k", "wrong", OPTEST_MODE="check"
    )
    assert done.returncode == 1


def test_a_filter_that_matches_nothing_is_5_and_says_so(script):
    done = script(HEAD + MAIN, OPTEST_ONLY="test_op.py::nope")
    assert done.returncode == 5
    assert "OPTEST_ONLY names none of the 3 cases" in done.stderr


def test_an_exception_that_the_script_catches_still_fails_the_case(script):
    source = (
        HEAD.replace(
            "out, us = run_perftest(fn, num_iters=10)",
            """try:
            out, us = run_perftest(fn, num_iters=10)
        except ZeroDivisionError:
            print("skipping")
            continue""",
        )
        + MAIN
    )
    done = script(source, "-k", "raises", OPTEST_MODE="check")
    assert done.returncode == 1
    assert "raised ZeroDivisionError: division by zero" in done.stderr


def test_a_bare_decorator_says_what_to_write(script):
    done = script(HEAD.replace("@benchmark()", "@benchmark"))
    assert "write @benchmark()" in done.stderr


def test_a_part_that_this_card_lacks_is_left_out_alone_and_said(script):
    source = HEAD + textwrap.dedent("""
    @benchmark()
    def test_wave64(m):
        return {"gfx": get_gfx()}

    def main():
        summarize("op", [test_op(2, "ok")])
        if get_gfx() != "cpu":
            summarize("wave64", [test_wave64(2)])
        else:
            logger.warning("cpu: skipping wave64-only cross-checks")

    if __name__ == "__main__":
        main()
    """)
    done = script(source, OPTEST_MODE="check")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("summary (markdown)") == 1
    assert "cpu: skipping wave64-only cross-checks" in done.stderr


def test_a_gate_inside_a_case_leaves_a_row_of_arguments_alone(script):
    """As upstream warns: the gate belongs into main()."""
    source = HEAD.replace("x = torch.randn(m, 8)", 'if get_gfx() != "gfx942": return')
    done = script(source + MAIN, OPTEST_MODE="check")
    lines = [re.sub(r"\s+", "", line) for line in done.stdout.strip().splitlines()]
    assert lines[1] == "|m|kind|"
    assert lines[3:] == ["|2|ok|", "|3|ok|", "|4|ok|"]
    assert "3 empty" in done.stderr
