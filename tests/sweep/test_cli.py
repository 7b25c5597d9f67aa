"""``optest run``, ``collect``, ``runs`` as a user has them, with real workers and a real store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import psutil
import pytest
from typer.testing import CliRunner

from optest.cli.main import app
from optest.store import Store

ROOT = Path(__file__).parents[2]
HEAD = """
import argparse, os, pathlib, time
import torch
from optest import logger
from optest.test_common import benchmark, checkAllclose, get_gfx, summarize

SMOKE = ["-s", "1"]

def sizes(default):
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", type=int, nargs="*", default=default)
    return parser.parse_args().s
"""
GOOD = """
@benchmark()
def test_sum(m):
    x = torch.ones(m)
    return {"gfx": get_gfx(), "sum err": checkAllclose(torch.tensor(float(m)), x.sum())}

@benchmark()
def test_max(m):
    return {"gfx": get_gfx(), "max": float(torch.ones(m).max())}

def main():
    ms = sizes([3, 2, 1])
    summarize("sums", [test_sum(m) for m in ms])
    summarize("maxima", [test_max(m) for m in ms])
"""
BAD = """
@benchmark()
def test_half(m):
    got = torch.ones(m)
    if m == 2 and not pathlib.Path("mended").exists():
        got[1:] = 5
    if m == 3 and not pathlib.Path("mended").exists():
        os.kill(os.getpid(), 11)
    return {"gfx": get_gfx(), "half err": checkAllclose(torch.ones(m), got)}

def main():
    summarize("halves", [test_half(m) for m in sizes([1, 2, 3])])
"""
GATED = """
@benchmark()
def test_gated(m):
    return {"gfx": get_gfx()}

def main():
    if get_gfx() not in ["gfx942"]:
        logger.warning("gated is for gfx942, this is %s", get_gfx())
        return
    test_gated(1)
"""
WHOLE = """
@benchmark()
def test_whole(m):
    return {"gfx": get_gfx(), "v": 1.0}

def main():
    frame = summarize("whole", [test_whole(m) for m in sizes([1, 2])])
    assert frame["v"].mean() == 1.0
"""
SLOW = """
@benchmark()
def test_slow(m):
    if m == 2:
        pathlib.Path("second").write_text(str(os.getpid()))
        time.sleep(1000)
    return {"gfx": get_gfx(), "v": m}

def main():
    summarize("slow", [test_slow(m) for m in sizes([1, 2, 3])])
"""
EMPTY = """
@benchmark()
def test_empty(m):
    return {"gfx": get_gfx()}

def main():
    summarize("empty", [test_empty(m) for m in sizes([])])
"""
TAIL = '\nif __name__ == "__main__":\n    main()\n'
OPS = {"good": GOOD, "bad": BAD, "gated": GATED, "whole": WHOLE}


def write(folder, **scripts):
    folder.mkdir(exist_ok=True)
    for name, body in scripts.items():
        (folder / f"test_{name}.py").write_text(HEAD + body + TAIL)


def optest(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def table_of(text, name):
    """The cells of the table under a heading."""
    lines = text.split(f"{name} summary (markdown):\n")[1].split("\n\n")[0].splitlines()
    return [
        [cell.strip() for cell in line.split("|")[1:-1]] for n, line in enumerate(lines) if n != 1
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("sweep")
    write(made / "ops", **OPS)
    (made / "ops/test_syntax.py").write_text("def (")
    (made / "ops/test_no_op.py").write_text("x = 1\n")
    return made


@pytest.fixture(autouse=True)
def _there(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def first(folder):
    """The first sweep of the folder, which all that follow look at."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("GITHUB_STEP_SUMMARY", "summary.md")
        return optest("run", "ops", "--junit", "out/junit.xml", "--jobs", "2")


def test_one_bad_case_or_file_costs_itself_alone(first):
    assert first.exit_code == 1, first.stderr
    assert "optest: 11 cases: 9 passed, 1 failed, 1 crashed in " in first.stderr
    assert "FAILED test_bad.py::test_half[m=2]" in first.stderr
    assert "CRASHED test_bad.py::test_half[m=3]" in first.stderr
    assert "SIGSEGV" in first.stderr
    assert "not for this card: ops/test_gated.py: gated is for gfx942, this is cpu" in first.stderr
    assert "run whole: ops/test_whole.py: KeyError: 'v'" in first.stderr
    assert "FAULT ops/test_syntax.py\n    it cannot be imported (SyntaxError" in first.stderr
    assert "FAULT ops/test_no_op.py\n    no op test" in first.stderr


def test_tables_are_the_scripts_own_in_case_order(first):
    assert table_of(first.stdout, "sums") == [
        ["m", "gfx", "sum err"],
        *([str(m), "cpu", "0"] for m in (3, 2, 1)),
    ]
    assert [row[0] for row in table_of(first.stdout, "maxima")] == ["m", "3", "2", "1"]
    halves = table_of(first.stdout, "halves")
    assert halves[:3] == [
        ["m", "gfx", "half err", "error"],
        ["1", "cpu", "0", ""],
        ["2", "cpu", "0.5 FAIL", ""],
    ]
    assert halves[3][:3] == ["3", "cpu", ""]
    assert halves[3][3].startswith("crashed: killed by SIGSEGV")
    assert first.stdout.count("summary (markdown)") == 4


def test_the_rerun_command_fails_alone(first):
    (line,) = (x for x in first.stderr.splitlines() if "alone" in x and "m=2" in x)
    command = line.partition("alone: ")[2]
    done = subprocess.run(
        command,
        shell=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1
    assert "1 case: 1 failed" in done.stderr


def test_reports_stand_where_they_were_asked_for(first, folder):
    root = ET.parse(folder / "out/junit.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("14", "1", "3")
    page = (folder / "summary.md").read_text()
    assert page.index("test_half[m=2]") < page.index("### sums")


def test_the_store_has_it_all_and_runs_shows_it(first, folder):
    shown = optest("runs")
    with Store.open(f"sqlite:///{folder}/.optest/results.sqlite") as store:
        run = store.find("latest")
        assert len(list(store.results(run.id))) == 12
    head, _, row, *more = shown.stdout.splitlines()
    cells = dict(
        zip(*([c.strip() for c in line.split("|")[1:-1]] for line in (head, row)), strict=True)
    )
    assert (cells["run"], cells["state"], cells["failed"]) == (run.id, "complete", "2")
    assert more == []


def test_going_on_runs_what_was_mended_and_shows_everything(first, folder):
    (folder / "mended").touch()
    for name in ("syntax", "no_op"):
        (folder / f"ops/test_{name}.py").unlink()
    again = optest("run", "--resume")
    assert again.exit_code == 0, again.stderr
    assert "optest: 2 to run, 2 at a time" in again.stderr
    assert "optest: 11 cases: 11 passed in " in again.stderr
    assert [row[2] for row in table_of(again.stdout, "halves")] == ["half err", "0", "0", "0"]
    assert table_of(again.stdout, "sums") == table_of(first.stdout, "sums")


@pytest.mark.parametrize("words", [["--check"], ["ops/test_good.py"], ["-k", "m=2"], ["--smoke"]])
def test_going_on_with_something_else_is_refused(first, words):
    refused = optest("run", *words, "--resume", "latest")
    assert refused.exit_code == 2
    assert "Leave that out, or start another run without --resume" in refused.stderr


def test_collect_prints_ids_and_runs_nothing(first):
    found = optest("collect", "ops", "-k", "m=2]")
    assert found.stdout.splitlines() == [
        "test_bad.py::test_half[m=2]",
        "test_good.py::test_sum[m=2]",
        "test_good.py::test_max[m=2]",
    ]
    assert found.exit_code == 0
    assert "not for this card: ops/test_gated.py" in found.stderr


def test_words_after_the_dashes_go_to_the_script(first):
    found = optest(
        "collect", "ops/test_good.py", "--function", "test_sum", "--json", "--", "-s", "9"
    )
    assert json.loads(found.stdout) == {
        "id": "test_good.py::test_sum[m=9]",
        "file": "ops/test_good.py",
        "function": "test_sum",
        "arguments": {"m": 9},
        "table": "sums",
        "where": "",
        "whole": False,
    }


def test_smoke_and_check_and_quiet(first):
    done = optest("run", "ops/test_good.py", "--smoke", "--check", "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [row[0] for row in table_of(done.stdout, "sums")] == ["m", "1"]


def test_gated_alone_is_0_and_no_case_at_all_5(first, folder):
    write(folder, empty=EMPTY)
    gated = optest("run", "ops/test_gated.py")
    assert gated.exit_code == 0
    assert "gated is for gfx942" in gated.stderr
    empty = optest("run", "test_empty.py")
    assert empty.exit_code == 5, empty.stderr
    assert "no case ran" in empty.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no path is given"),
        (["nowhere"], "nowhere: there is no such file or folder"),
        (["ops", "--file", "test_goood.py"], "did you mean test_good.py"),
        (["ops", "--guards", "all"], "--guards 'all': expected one of off, cheap, full"),
        (["ops", "--arch", "H100"], "--arch 'H100': expected an arch name"),
        (["ops", "--executor", "slurm"], "--executor 'slurm': expected local or ray"),
        (["ops", "--address", "auto"], "--address auto: it is for --executor ray"),
        (["ops", "--memory-limit", "4 parsecs"], "--memory-limit '4 parsecs': expected an amount"),
        (["ops", "--smoke", "--", "-s", "1"], "--smoke, and -- -s 1: expected one of the two"),
        (["ops", "--jobs", "100000"], "--jobs 100000: expected 1 to"),
        (["ops", "--store", "mysql://x"], "--store 'mysql://x': expected sqlite:///PATH"),
        (["ops", "--store", "sqlite:////proc/none/r.sqlite"], "/proc/none"),
        (["ops", "--junit", "/proc/none/j.xml"], "--junit /proc/none/j.xml"),
        (["--resume", "nosuch"], "run 'nosuch'"),
        (["--resume", "--store", "sqlite:///nosuch.db"], "nosuch.db: there is no such store"),
    ],
)
def test_a_users_mistake_is_one_message_and_2(first, words, said):
    done = optest("run", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_variables_of_a_single_script_are_refused(monkeypatch):
    monkeypatch.setenv("OPTEST_ONLY", "x::y")
    done = optest("run", "ops")
    assert done.exit_code == 2
    assert "OPTEST_ONLY is set: it is for a single script. Unset it and use -k." in done.stderr


def wait_for(condition, seconds=60):
    latest = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < latest, "waited in vain"
        time.sleep(0.02)


def test_ctrl_c_stops_cleanly_with_what_was_finished(folder):
    write(folder, slow=SLOW)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "optest.cli.main",
            "run",
            "test_slow.py",
            "--store",
            "sqlite:///s.db",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    second = folder / "second"
    wait_for(lambda: second.exists() and second.read_text())
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it, to all in the foreground
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert table_of(out, "slow") == [["m", "gfx", "v"], ["1", "cpu", "1"]]
    assert "1 case: 1 passed, 2 not run" in err
    (line,) = (x for x in err.splitlines() if "go on with" in x)
    assert "run --resume 2" in line
    assert line.endswith(f"--store sqlite:///{folder}/s.db")
    assert not psutil.pid_exists(int(second.read_text()))


TWICE = """
import os, signal, sys
from optest.sweep.signals import Stop
with Stop() as stop:
    stop.listen(lambda: print("first", flush=True), raises=False)
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    print("went on")
"""


def test_a_second_ctrl_c_ends_at_once():
    done = subprocess.run(
        [sys.executable, "-c", TWICE],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout) == (130, "first\n")


HANGUP = """
import os, signal, sys
from optest.sweep.signals import Stop
if sys.argv[1:] == ["nohup"]:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
with Stop() as stop:
    stop.listen(lambda: print("stops", flush=True), raises=False)
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)
    print("asked" if stop.asked else "not asked")
"""


@pytest.mark.parametrize(("words", "printed"), [([], "stops\nasked\n"), (["nohup"], "not asked\n")])
def test_a_closed_terminal_stops_cleanly_though_it_is_told_twice(words, printed):
    done = subprocess.run(
        [sys.executable, "-c", HANGUP, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout) == (0, printed)


# As a program of its own: this one has torch loaded, and its standard output is pytest's.
COLLECT = """
import sys
from optest.cli.main import app
try:
    app(["collect", "ops/test_good.py"])
except SystemExit as stop:
    print(*({"torch", "ray", "sqlalchemy"} & set(sys.modules)), file=sys.stderr)
    raise
"""


def test_a_full_disk_below_the_output_is_said_and_the_parent_loads_no_torch():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", COLLECT],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 1
    assert done.stderr == "[optest] ERROR: standard output: No space left on device\n\n"


MISTAKES = {
    ("run", ""): "expected the path of an op test or a folder",
    ("collect", "ops/test_good.py", ""): "expected the path of an op test or a folder",
    ("run", "ops/test_good.py", "--store", ""): "--store ''",
    ("runs", "--store", ""): "--store ''",
    ("export", "-o", "x.csv", "--store", ""): "--store ''",
    ("run", "ops/test_good.py", "--store", "sqlite:///ops"): "this is a folder",
    ("runs", "--store", "sqlite:///ops"): "this is a folder",
    ("run", "ops/test_good.py", "--timeout", "inf"): "",
    ("runs", "-n", str(10**20)): "",
    ("collect", "x" * 5000): "there is no such file or folder",
    ("run", "ops/test_good.py", "--junit", "ops/test_bad.py"): "holds no XML",
}


@pytest.mark.parametrize("words", MISTAKES, ids=lambda words: " ".join(words)[:60])
def test_a_mistake_is_said_and_nothing_is_run_or_overwritten(folder, words, caplog):
    before = (folder / "ops/test_bad.py").read_text()
    done = optest(*words)
    assert (done.exit_code, type(done.exception)) == (2, SystemExit)
    assert MISTAKES[words] in caplog.text + done.output
    assert (folder / "ops/test_bad.py").read_text() == before


def test_a_report_of_an_earlier_run_is_replaced(folder):
    report = folder / "again.xml"
    report.write_text("<testsuites/>")
    assert optest("run", "ops/test_gated.py", "--junit", report).exit_code == 0
    assert "test_gated.py" in report.read_text()
