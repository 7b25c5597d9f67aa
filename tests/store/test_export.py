"""A run as a file: whole as JSON lines, flat as CSV and Parquet, never half."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import asdict, replace

import pandas as pd
import pytest
from store_examples import FACTS, planned, result, timing, verdict
from typer.testing import CliRunner

from optest.cli.main import app
from optest.errors import StoreError
from optest.store.export import export

ODD = "=1+1 \ud800\x00ü"


@pytest.fixture
def filled(sqlite):
    """A run with two candidates, one failed case, one script run whole, and odd words."""
    run = sqlite.begin(FACTS)
    sqlite.record(run, result(1))
    sqlite.record(run, result(2, "crashed", row={}, checks=[], reason="signal 11", text=ODD))
    unit = replace(planned(3), arguments={"m": "-3", "dtype": ODD, "k": [1, 2]})
    row = {"us": timing(), "err": verdict(), "gfx": "gfx942", "best kernel": "@cpp", "TFLOPS": None}
    sqlite.record(run, result(3, planned=unit, row=row))
    sqlite.end(run, "complete")
    return sqlite.find(run)


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_json_lines_hold_each_result_whole(sqlite, filled, tmp_path):
    path = tmp_path / "out.jsonl"
    assert export(sqlite, filled, path) == 3
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    heads = [line.pop("run") for line in lines]
    assert lines == [asdict(each) for each in sqlite.results(filled.id)]
    for head in heads:
        assert head["id"] == filled.id
        assert {name: head[name] for name in asdict(FACTS)} == asdict(FACTS)
        assert head["state"] == "complete"


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_a_flat_file_has_a_line_for_each_candidate(sqlite, filled, tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    assert export(sqlite, filled, path) == 4
    read = pd.read_parquet if suffix == ".parquet" else pd.read_csv
    frame = read(path)
    assert frame["candidate"].fillna("").tolist() == ["cpp", "triton", "", ""]
    assert frame["arg.m"].astype(str).tolist()[:3] == ["1", "1", "2"]
    assert frame["us"].tolist()[:2] == [2.5, 2.5]
    first = frame.iloc[0]
    assert (first["us.n"], first["us.ci_low"], first["us.ci_high"]) == (3, 1.5, 3.5)
    assert (first["us.p25"], first["us.p75"], first["us.min"], first["us.max"]) == (2, 3, 1.5, 3.5)
    assert (first["err"], first["err.status"], first["TFLOPS"]) == (0.0, "pass", 1.25)
    assert (first["status"], first["gfx"], first["commit"]) == ("passed", "cpu", FACTS.commit)
    assert frame["status"].tolist() == ["passed", "passed", "crashed", "passed"]
    assert frame["reason"].tolist()[2] == "signal 11"
    last = frame.iloc[3]
    assert (last["gfx"], last["column.gfx"], last["us"]) == ("cpu", "gfx942", 2.5)
    assert last["arg.k"] == "[1, 2]"
    assert pd.isna(last["TFLOPS"])


def test_no_spreadsheet_runs_what_a_test_wrote(sqlite, filled, tmp_path):
    path = tmp_path / "out.csv"
    words = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\tx", "\r=1", "plain", "a=b"]
    row = {f"=c{n} us": timing() for n in range(2)} | {f"w{n}": w for n, w in enumerate(words)}
    sqlite.record(filled.id, result(4, row={**row, "=head": "x", "less": -1.5}))
    export(sqlite, filled, path)
    last = rows(path)[-1]
    safe = [f"'{word}" for word in words[:6]] + words[6:]
    assert [last[f"w{n}"] for n in range(len(words))] == safe
    assert (last["'=head"], last["candidate"], last["less"]) == ("x", "'=c1", "-1.5")
    third = rows(path)[3]
    assert third["arg.m"] == "'-3"
    assert third["arg.dtype"] == "'=1+1 \\ud800\\0ü"
    for cell in (cell for line in csv.reader(io.StringIO(path.read_text())) for cell in line):
        assert not re.match(r"[=@+\t\r]|-(?!\d)", cell)


def test_what_belongs_to_the_case_stands_with_each_candidate(sqlite, tmp_path):
    run = sqlite.begin(FACTS)
    row = {"shape": "wide", "us": 9.0, "cpp us": 1.0, "triton us": 2.0, "triton GB": 3}
    sqlite.record(run, result(1, row=row))
    export(sqlite, sqlite.find(run), tmp_path / "out.csv")
    told = [(r["candidate"], r["us"], r["shape"], r["GB"]) for r in rows(tmp_path / "out.csv")]
    assert told == [
        ("", "9.0", "wide", ""),
        ("cpp", "1.0", "wide", ""),
        ("triton", "2.0", "wide", "3"),
    ]


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([1, 2, None], [1, 2, None]),
        ([1, 2.5], [1.0, 2.5]),
        ([True, False], [True, False]),
        ([1, "x"], ["1", "x"]),
        ([True, 1], ["True", "1"]),
        ([10**30, 1], [1e30, 1.0]),
        ([ODD], ["=1+1 \\ud800\x00ü"]),
        ([[1], None], ["[1]", None]),
    ],
)
def test_a_column_of_parquet_has_one_type(sqlite, tmp_path, values, kept):
    import pyarrow.parquet as pq

    run = sqlite.begin(FACTS)
    for n, value in enumerate(values):
        sqlite.record(run, result(n, row={"x": value}))
    export(sqlite, sqlite.find(run), tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["x"].to_pylist() == kept


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_run_without_results_is_an_empty_file(sqlite, tmp_path, suffix):
    run = sqlite.find(sqlite.begin(FACTS))
    path = tmp_path / f"out{suffix}"
    assert export(sqlite, run, path) == 0
    assert path.is_file()


def test_an_older_file_stays_until_the_new_one_is_whole(sqlite, filled, tmp_path, monkeypatch):
    path = tmp_path / "sub" / "out.csv"
    path.parent.mkdir()
    path.write_text("older")

    def torn(_run):
        yield result(1)
        raise StoreError("the server went away")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "results", torn)
        for suffix in (".csv", ".jsonl"):
            with pytest.raises(StoreError, match="the server went away"):
                export(sqlite, filled, path.with_suffix(suffix))
    assert path.read_text() == "older"
    assert list(path.parent.iterdir()) == [path]
    export(sqlite, filled, path)
    assert path.read_text().startswith("run,")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("out.xlsx", r"out.xlsx: expected a file named \*.jsonl, \*.csv, \*.parquet"),
        ("out", r"expected a file named"),
        ("missing/out.csv", r"missing/out.csv: it cannot be written \(No such file or directory\)"),
        ("folder.csv", r"folder.csv: it cannot be written \(Is a directory\)"),
    ],
)
def test_a_file_that_cannot_be_written_is_named(sqlite, filled, tmp_path, name, words):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(StoreError, match=words):
        export(sqlite, filled, tmp_path / name)


def test_without_pyarrow_the_extra_is_named(sqlite, filled, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StoreError, match=r"pyarrow: pip install 'optest\[report\]'"):
        export(sqlite, filled, tmp_path / "out.parquet")
    assert not list(tmp_path.glob("*out*"))


def command(*args):
    return CliRunner().invoke(app, ["export", *map(str, args)])


def test_the_command_writes_the_latest_run_of_this_folder(tmp_path, monkeypatch, sqlite, filled):
    path = tmp_path / "out.csv"
    at = f"sqlite:///{sqlite._database.place.path}"
    assert command("-o", path, "--store", at).exit_code == 0
    assert len(rows(path)) == 4
    assert command(filled.id, "-o", tmp_path / "named.jsonl", "--store", at).exit_code == 0
    monkeypatch.chdir(tmp_path)
    assert command("-o", path).exit_code == 2  # this folder has no store, and is given none
    assert not (tmp_path / ".optest").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing", "-o", "out.csv"], "run 'nothing': "),
        (["-o", "out.txt"], "expected a file named"),
        (["-o", "out.csv", "--store", "mysql://x"], "expected sqlite:///PATH"),
    ],
)
def test_a_user_s_mistake_is_one_line_and_exit_code_2(
    sqlite, filled, words, said, tmp_path, monkeypatch, caplog
):
    monkeypatch.chdir(tmp_path)
    at = [] if "--store" in words else ["--store", f"sqlite:///{sqlite._database.place.path}"]
    done = command(*words, *at)
    assert done.exit_code == 2
    assert said in caplog.text
    assert "Traceback" not in done.output
