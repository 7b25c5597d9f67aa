"""``optest compare`` and ``optest rank`` as a user has them, on files and on a store."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from store_examples import FACTS, planned, result, timing
from typer.testing import CliRunner

from optest.cli.main import app
from optest.store import Store

ROOT = Path(__file__).parents[2]
TABLE = "| m | cpp us | cpp err |\n|---|---|---|\n| 1 | {} | {} |\n"


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """``ran("compare", …)`` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    return run


@pytest.fixture
def tables(ran, tmp_path):
    """Two pasted tables: slower by ``head`` over 10."""

    def write(head=10.0, err=0):
        (tmp_path / "old.md").write_text(TABLE.format(10.0, 0))
        (tmp_path / "new.md").write_text(TABLE.format(head, err))

    return write


def measured(us, count=40, **said):
    """A timing whose samples lie about ``us``."""
    samples = [us * (1 + (n * 7 % 11 - 5) / 2000) for n in range(count)]
    return {**timing(samples), "median_us": us, **said}


@pytest.fixture
def store(tmp_path):
    """Two runs: of the second, one case became slower and one died."""
    at = f"sqlite:///{tmp_path / '.optest' / 'results.sqlite'}"
    with Store.open(at) as opened:
        runs = []
        for factor, status in ((1.0, "passed"), (1.3, "crashed")):
            run = opened.begin(FACTS)
            opened.plan(run, [planned(n) for n in range(4)])
            for n in range(3):
                row = {"gfx": "cpu", "cpp us": measured(50.0 * (factor if n == 1 else 1.0))}
                row["triton us"] = measured(80.0)
                opened.record(run, result(n, row=row, checks=[]))
            opened.record(run, result(3, status, row={} if status == "crashed" else row, checks=[]))
            opened.end(run, "complete")
            runs.append(run)
    return runs


@pytest.mark.parametrize(
    ("head", "err", "words", "code", "says"),
    [
        (10.0, 0, [], 0, "1 same"),
        (10.4, 0, [], 0, "1 same"),
        (10.6, 0, [], 1, "1 slower"),
        (10.6, 0, ["--threshold", "10%"], 0, "1 same"),
        (10.6, 0, ["--threshold", "3"], 1, "1 slower"),
        (5.0, 0, [], 0, "1 faster"),
        (5.0, "0.9 FAIL", [], 1, "1 now wrong"),
    ],
)
def test_two_tables(ran, tables, head, err, words, code, says):
    tables(head, err)
    done = ran("compare", "old.md", "new.md", *words)
    assert done.exit_code == code, done.output
    assert done.stdout.startswith(f"## optest compare: {says}\n")


def test_all_outputs_at_once(ran, tables, tmp_path):
    tables(20.0)
    words = ["-o", "out/page.md", "--json", "c.json", "--junit", "c.xml", "--github"]
    done = ran("compare", "old.md", "new.md", *words)
    assert done.exit_code == 1
    assert done.stdout.startswith("::error title=slower::table 1[m=1] cpp: x 2 (not known)")
    assert (tmp_path / "out/page.md").read_text().startswith("## optest compare: 1 slower\n")
    assert json.loads((tmp_path / "c.json").read_text())["exit_code"] == 1
    assert ET.parse(tmp_path / "c.xml").getroot().get("failures") == "1"


def test_two_runs_of_a_store(ran, store):
    done = ran("compare", store[0], "latest")
    assert done.exit_code == 1, done.output
    head = "## optest compare: 2 now wrong, 1 slower, 5 same\n"
    assert done.stdout.startswith(head)
    assert f"base: run {store[0]} (commit c0ffee000000 (changed), main)" in done.stdout
    assert "| `test_a.py::test_a[m=1]` | `cpp` | **slower** | 50 | 65 | +30 % |" in done.stdout
    assert "`crashed: cpp: 3 of 10 are off`" in done.stdout


def test_of_a_run_that_has_not_ended_it_is_said_what_is_missing(ran, store):
    with Store.open("sqlite:///.optest/results.sqlite") as opened:
        run = opened.begin(FACTS)
        opened.plan(run, [planned(n) for n in range(4)])
        opened.record(run, result(0, row={"cpp us": measured(50.0)}, checks=[]))
    done = ran("compare", store[0], run)
    assert f"- run {run}: 3 of its cases have no result\n" in done.stdout
    assert f"run {store[0]}: " not in done.stdout


def test_a_run_against_an_exported_one(ran, store):
    assert ran("export", store[1], "-o", "head.jsonl").exit_code == 0
    done = ran("compare", store[0], "head.jsonl")
    assert done.exit_code == 1
    assert "2 now wrong, 1 slower, 5 same" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing", "new.md"], "nothing: no such file; as a run: "),
        (["old.md", "."], ".: a folder, no file; as a run: "),
        (["old.md", ""], "'': no such file; as a run: "),
        (["old.md", "new.md", "--threshold", "0.05"], "--threshold '0.05': expected per cent"),
        (["old.md", "new.md", "--threshold", "five"], "--threshold 'five'"),
        (["old.md", "new.md", "--threshold", "nan"], "--threshold 'nan'"),
        (["old.md", "new.md", "--drift", "-1"], "--drift '-1'"),
        (["old.md", "bad.md"], "bad.md, line 3, column 'cpp us': 'ten'"),
        (["old.md", "other.md"], "no case in common"),
        (["old.md", "new.md", "--json", "old.md/x"], "--json old.md/x: it cannot be written"),
    ],
)
def test_bad_input_is_one_message_and_2(ran, tables, tmp_path, caplog, words, says):
    tables()
    (tmp_path / "bad.md").write_text(TABLE.format("ten", 0))
    (tmp_path / "other.md").write_text(TABLE.format(10.0, 0).replace("| 1 |", "| 2 |"))
    done = ran("compare", *words)
    assert done.exit_code == 2
    assert says in done.output + caplog.text
    assert "Traceback" not in done.output + caplog.text


def test_a_side_may_be_a_pipe(ran, tables, tmp_path):
    tables(20.0)
    os.mkfifo(tmp_path / "pipe")
    text = (tmp_path / "new.md").read_text()
    write = (tmp_path / "pipe").write_text
    writer = threading.Thread(target=write, args=(text,), daemon=True)  # it waits for a reader
    writer.start()
    done = ran("compare", "old.md", "pipe")
    assert done.exit_code == 1
    assert "1 slower" in done.stdout
    writer.join()


@pytest.mark.parametrize("words", [("compare", "old.md", "new.md"), ("rank", "old.md")])
def test_what_standard_output_does_not_take_is_1(tables, tmp_path, words):
    tables()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "optest.cli.main", *words],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 1
    assert "standard output: " in done.stderr


def test_one_run_by_two_names_is_refused(ran, store, caplog):
    done = ran("compare", "latest", store[1])
    assert done.exit_code == 2
    assert f"latest and {store[1]} are one run, {store[1]}" in done.output + caplog.text


def test_across_machines(ran, tables, tmp_path, caplog):
    tables()
    for name, gfx in (("old", "gfx942"), ("new", "gfx950")):
        (tmp_path / f"{name}.md").write_text(f"| m | gfx | us |\n|-|-|-|\n| 1 | {gfx} | 2 |\n")
    done = ran("compare", "old.md", "new.md")
    assert done.exit_code == 2
    assert "gfx: gfx942, then gfx950" in done.output + caplog.text
    done = ran("compare", "old.md", "new.md", "--across")
    assert done.exit_code == 0
    assert "**Not measured alike:**\n\n- gfx: gfx942, then gfx950\n" in done.stdout


def test_drift_decides_what_a_run_may_claim(ran, store, tmp_path):
    for words, says in (([], "1 slower"), (["--drift", "20"], "too noisy to say")):
        done = ran("compare", *store, *words, "--json", "c.json")
        assert says in done.stdout
    lines = json.loads((tmp_path / "c.json").read_text())["lines"]
    assert {each["verdict"] for each in lines} == {"now wrong", "too noisy to say"}


def test_rank(ran, store, tmp_path):
    done = ran("rank", store[0], "--csv", "r.csv", "--json", "r.json")
    assert done.exit_code == 0, done.output
    assert "| `test_a.py::test_a[m=0]` | `cpp` | 50 |  | `triton` +60 % |  |" in done.stdout
    with (tmp_path / "r.csv").open() as file:
        assert [row["winner"] for row in csv.DictReader(file)] == ["cpp"] * 4
    read = json.loads((tmp_path / "r.json").read_text())
    assert [each["arguments"]["m"] for each in read["cases"]] == ["0", "1", "2", "3"]


def test_rank_takes_the_newest_run_and_a_dead_case_has_no_winner(ran, store):
    done = ran("rank")
    assert done.exit_code == 0
    assert "| `test_a.py::test_a[m=3]` |  |  |  |  | (the case) |" in done.stdout


def test_rank_of_nothing_is_2(ran):
    assert ran("rank").exit_code == 2
