"""``optest ab`` as a user has it: real worktrees, real workers, a real store."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from optest.cli.main import app
from optest.compare import in_turn
from optest.store import Store

ROOT = Path(__file__).parents[2]
US = 400
OP_TEST = """
import argparse

import torch

from kernels.spin import plus_one
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize


@benchmark()
def test_spin(n):
    x = torch.ones(8)
    out, us = run_perftest(plus_one, x, n, controls=False)
    return {"gfx": get_gfx(), "cpp us": us, "cpp err": checkAllclose(x + 1, out)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, nargs="*", default=[0, 1])
    summarize("spin", [test_spin(n) for n in parser.parse_args().n])


if __name__ == "__main__":
    main()
"""
KERNEL = """
import pathlib, time
from optest import native

def plus_one(x, n):
    native.csrc("harness").spin({us})
    return x + {add}
"""


def kernel(us=US, add="1"):
    return KERNEL.format(us=us, add=add)


@pytest.fixture
def there(repo, scratch, monkeypatch):
    """A repository at its first commit, the working folder inside it."""
    repo.commit(ops__test_spin=OP_TEST, kernels__spin=kernel())
    monkeypatch.chdir(repo.top)
    monkeypatch.setenv("OPTEST_CACHE", "warm")
    monkeypatch.setenv("OPTEST_BUDGET_S", "0.03")
    return repo


def optest(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def ab(repo, *words, store="s.db"):
    """What it came to, as JSON; the user's checkout is looked at before and after."""
    before = repo.state()
    out = repo.top.parent / "out.json"
    url = f"sqlite:///{repo.top.parent}/{store}"
    done = optest("ab", *words[:2], "ops", "--json", out, "--store", url, *words[2:])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert repo.state() == before
    made = json.loads(out.read_text()) if out.exists() else {}
    out.unlink(missing_ok=True)
    return done, made


def verdicts(made):
    return {line["case"].partition("::")[2]: line["verdict"] for line in made["lines"]}


def test_a_true_slowdown_is_found_and_one_that_is_none_is_not(there, scratch):
    there.commit(kernels__spin=kernel(f"{US} * (1.2 if n == 1 else 1.0)"))
    done, made = ab(there, "HEAD~1", "HEAD", "--rounds", 10)
    assert done.exit_code == 1, done.output
    assert verdicts(made)["test_spin[n=1]"] == "slower"
    assert verdicts(made)["test_spin[n=0]"] != "slower"
    (slow,) = (line for line in made["lines"] if line["verdict"] == "slower")
    low, high = slow["interval"]
    assert low < slow["ratio"] < high
    assert 1.12 < slow["ratio"] < 1.28
    assert list(scratch.iterdir()) == []


def test_equal_revisions_are_silent_and_both_runs_are_in_the_store(there, scratch):
    done, made = ab(there, "HEAD", "HEAD", "--rounds", 6)
    assert done.exit_code == 0, done.output
    assert set(verdicts(made).values()) <= {"same", "too noisy to say"}
    with Store.open(f"sqlite:///{there.top.parent}/s.db") as store:
        head, base = store.runs()
        both = [list(store.results(run.id)) for run in (base, head)]
    assert [run.state for run in (base, head)] == ["complete"] * 2
    assert in_turn.pair_of(base.facts) == in_turn.pair_of(head.facts) != ""
    assert {run.facts.arguments["ab"]["side"] for run in (base, head)} == {"base", "head"}
    assert (head.facts.branch, head.facts.dirty) == ("main", False)
    for run in (base, head):  # --resume cannot go on with it: its worktree is gone
        assert "paths" not in run.facts.arguments
        assert run.facts.arguments["ab"]["paths"] == ["ops"]
    for results in both:
        for each in results:
            assert len(each.row["cpp us"]["blocks"]) == 6
            assert len(each.row["cpp us"]["samples_us"]) == sum(each.row["cpp us"]["blocks"])
    assert list(scratch.iterdir()) == []


def test_a_wrong_kernel_in_head_is_now_wrong_and_the_working_tree_can_be_head(there):
    there.write(kernels__spin=kernel(add="(2 if n == 1 else 1)"))
    done, made = ab(there, "main", "WORKTREE", "--rounds", 4)
    assert done.exit_code == 1, done.output
    assert verdicts(made)["test_spin[n=1]"] == "now wrong"
    assert verdicts(made)["test_spin[n=0]"] != "now wrong"
    assert "changed" in made["head"]


BROKEN = "raise NameError('half of a change')\n"


def test_an_op_test_that_head_cannot_import_is_now_wrong_with_the_reason(there):
    there.commit(kernels__spin=BROKEN)
    done, made = ab(there, "HEAD~1", "HEAD", "--rounds", 4)
    assert done.exit_code == 1, done.output
    assert set(verdicts(made).values()) == {"now wrong"}
    assert "half of a change" in made["lines"][0]["reason"]


def test_what_one_side_lacks_is_new_or_gone(there):
    there.commit(ops__test_less=OP_TEST.replace("test_spin", "test_less"))
    (there.top / "ops/test_less.py").unlink()
    there.commit(ops__test_more=OP_TEST.replace("test_spin", "test_more"))
    done, made = ab(there, "HEAD~1", "HEAD", "--rounds", 4, "--", "-n", "1")
    assert done.exit_code == 0, done.output
    assert verdicts(made)["test_more[n=1]"] == "new"
    assert verdicts(made)["test_less[n=1]"] == "gone"


def test_a_build_command_runs_in_each_worktree_and_its_failure_is_said(there):
    code = "import pathlib; pathlib.Path('kernels/built.py').write_text('US = 1')"
    there.commit(kernels__spin=f"from kernels.built import US\n{kernel()}", build=f"{code}\n")
    build = f"{sys.executable} build.py"
    words = ("--rounds", 4, "--", "-n", "0")
    done, made = ab(there, "HEAD", "HEAD", "--build", build, *words)
    assert done.exit_code == 0, done.output
    assert len(made["lines"]) == 1
    done, made = ab(there, "HEAD~1", "HEAD", "--build", build, *words)
    assert (done.exit_code, made) == (2, {})


MISTAKES = {
    ("nowhere", "HEAD", "ops"): "revision 'nowhere': ",
    ("HEAD", "", "ops"): "revision '': ",
    ("HEAD", "HEAD", "nothing_there"): "nothing_there: it is in neither HEAD (",
    ("HEAD", "HEAD", "/"): "/: it lies outside ",
    ("HEAD", "HEAD", "ops", "-k", "zzz"): "-k 'zzz' matches no case",
    ("HEAD", "HEAD", "ops", "--file", "zzz"): "--file 'zzz' matches no file",
    ("HEAD", "HEAD", "ops", "--build", "'"): "--build",
    ("HEAD", "HEAD", "ops", "--build", "no-such-program"): "--build no-such-program: ",
    ("HEAD", "HEAD", "ops", "--rounds", "1"): "",
    ("HEAD", "HEAD", "ops", "--threshold", "x"): "--threshold 'x'",
    ("HEAD", "HEAD", "kernels/spin.py"): "no op test",
    ("HEAD", "HEAD", "ops", "--", "--no-such-option"): "it refuses its arguments",
    ("HEAD", "HEAD", "untracked"): "WORKTREE takes files as they stand",
}


@pytest.mark.parametrize("words", MISTAKES, ids=lambda words: " ".join(words)[:60])
def test_a_mistake_is_one_message_and_leaves_nothing(there, scratch, words, caplog):
    there.write(untracked__test_new=OP_TEST)
    before = there.state()
    own, after = words, ()
    if "--" in words:
        at = words.index("--")
        own, after = words[:at], words[at:]
    done = optest("ab", *own, "--store", f"sqlite:///{there.top.parent}/s.db", *after)
    assert (done.exit_code, type(done.exception)) == (2, SystemExit), done.output
    assert MISTAKES[words] in caplog.text + done.output
    assert there.state() == before
    assert list(scratch.iterdir()) == []


def test_a_side_whose_own_optest_cannot_start_is_named_and_nothing_is_called_wrong(there, caplog):
    (there.top / "optest").mkdir()
    (there.top / "optest/__init__.py").touch()
    there.commit("an optest that is too old")
    done, made = ab(there, "HEAD~1", "HEAD", "--rounds", 4)
    assert (done.exit_code, made) == (2, {})
    assert re.search(
        r"head, HEAD \(\w{12}\): no process can be started: .*optest.sweep", caplog.text
    )


def test_where_nothing_is_timed_there_is_nothing_to_compare(there, monkeypatch, caplog):
    monkeypatch.setenv("OPTEST_MODE", "check")
    done, made = ab(there, "HEAD", "HEAD")
    assert (done.exit_code, made) == (2, {})
    assert "OPTEST_MODE=check: nothing is timed in it" in caplog.text


def test_on_another_arch_than_was_asked_for_nothing_runs_and_nothing_is_wrong(there, caplog):
    done, made = ab(there, "HEAD", "HEAD", "--arch", "gfx90a")
    assert (done.exit_code, made) == (0, {}), caplog.text
    assert "nothing was run, since this is " in caplog.text


def test_outside_of_a_repository(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    done = optest("ab", "HEAD", "HEAD", "ops", "--store", f"sqlite:///{tmp_path}/s.db")
    assert done.exit_code == 2
    assert "no git repository" in caplog.text


def test_ctrl_c_leaves_no_worktree_no_process_and_a_page_of_what_was_finished(there, scratch):
    before = there.state()
    store = f"sqlite:///{there.top.parent}/s.db"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "optest.cli.main", "ab", "HEAD", "HEAD", "ops"),
            *("--rounds", "500", "--store", store),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    said = ""
    while "round 2 of" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "test_spin" in out
    assert "interrupted after" in err
    assert list(scratch.iterdir()) == []
    assert there.state() == before
    latest = time.monotonic() + 10
    while any(each.is_running() for each in family) and time.monotonic() < latest:
        time.sleep(0.02)
    assert not any(each.is_running() for each in family)
    with Store.open(store) as opened:
        assert [run.state for run in opened.runs()] == ["interrupted"] * 2
