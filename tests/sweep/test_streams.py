"""The command line with streams that are closed, full, or refuse letters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from optest.store import Store
from optest.store.records import Place, Planned, Result, RunFacts

ROOT = Path(__file__).parents[2]
OPTEST = f"{sys.executable} -m optest.cli.main"


def shell(line, folder, **variables):
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("streams")
    with Store.open(f"sqlite:///{made}/s.db") as store:
        run = store.begin(RunFacts(branch="main", place=Place(gfx="cpu")))
        unit = Planned("a::b", "a", "b", {})
        store.plan(run, [unit])
        store.record(run, Result(unit, "passed"))
        store.end(run, "complete")
    (made / "test_ü.py").write_text("x = 1\n", "utf-8")
    return made


STREAMS = {
    f"{OPTEST} runs --store sqlite:///s.db > /dev/full": (1, "[optest] ERROR: standard output: "),
    f"{OPTEST} runs --store sqlite:///s.db >&-": (0, ""),
    f"{OPTEST} runs --store sqlite:///s.db <&- >&- 2>&-": (0, ""),
    f"{OPTEST} export -o out.csv --store sqlite:///s.db >&- 2>&-": (0, ""),
    f"{OPTEST} collect test_none.py 2>&-": (2, ""),
}


@pytest.mark.parametrize("line", STREAMS)
def test_a_stream_that_is_full_or_closed_is_no_traceback(folder, line):
    code, said = STREAMS[line]
    done = shell(line, folder)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert done.stderr.startswith(said)


PRINTS = """
from optest.cli import streams
from optest.cli.sweep_options import prints
streams.ready()
assert prints(["before \\u00b5s \\ud800\\n", "after\\n"])
"""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_letter_that_the_output_cannot_hold_costs_no_table(folder, encoding):
    done = subprocess.run(
        [sys.executable, "-c", PRINTS],
        cwd=folder,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0, done.stderr
    micro = "\N{MICRO SIGN}".encode(encoding, "backslashreplace")
    assert done.stdout == b"before " + micro + b"s \\ud800\nafter\n"


OP = """
import torch
from optest.test_common import benchmark, checkAllclose, summarize

@benchmark()
def test_it(n):
    return {"err": checkAllclose(torch.ones(2), torch.ones(2) + n % 2)}

def main():
    summarize("it", [test_it(n) for n in range(4)])

if __name__ == "__main__":
    main()
"""
UNHEARD = {"full": "2> /dev/full", "left": "2>&1 >tables | head -n 1"}


@pytest.mark.parametrize("how", UNHEARD)
def test_a_sweep_goes_on_to_its_end_where_nobody_hears_it(folder, how):
    (folder / "test_op.py").write_text(OP)
    report = folder / f"{how}.xml"
    store = f"sqlite:///{folder}/{how}.db"
    run = f"{OPTEST} run test_op.py --store {store} --junit {report}"
    shell(f"( {run} ; echo $? > code ) {UNHEARD[how]}", folder)
    assert (folder / "code").read_text() == "1\n"  # two of the cases are wrong
    with Store.open(store, make=False) as opened:
        (found,) = opened.runs(5)
        assert (found.state, found.totals["failed"], found.totals["passed"]) == ("complete", 2, 2)
    assert report.read_text().count("<testcase") == 4
