"""What dashboards read, against examples of each format that were written by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from compare_sides import HERE, case, side
from store_examples import FACTS, planned, result, timing
from typer.testing import CliRunner

from optest.cli.main import app
from optest.compare import asv, benchmark_action
from optest.compare.side import Case, Cell
from optest.errors import UsageError
from optest.store import Store
from optest.store.records import Run, RunFacts

SAMPLES = tuple(float(n) for n in range(1, 22))  # median 11
TIMED = Cell(11.0, SAMPLES, clock="wall", cache="cold")
WRONG = Cell(1.0, SAMPLES, wrong="off")
COMMIT = "0123456789abcdef" * 2 + "01234567"
RUN = Run("20261130-041001-2858", RunFacts(commit=COMMIT, environment={"A": "1"}), "complete", 1.5)
SIDE = side(
    "run",
    case(1, {"cpp": TIMED, "bad|one": WRONG}, gfx="gfx942"),
    case(2, {"cpp": Cell(2.5)}),
    case(3, {"cpp": TIMED}, wrong="crashed"),
    case(4, {"cpp": Cell(), "tri": Cell(3.5)}, where="gfx950"),
)


def test_the_action_gets_its_array():
    found = benchmark_action.entries(SIDE)
    # Ranks 6 and 16 of 21: P(binomial(21, 1/2) < 6) is 1.3 %, below 2.5 %; of rank 7 3.9 %.
    assert json.loads(benchmark_action.document(found)) == [
        {
            "name": "test_a.py::test_a[m=1] cpp",
            "unit": "us",
            "value": 11.0,
            "range": "± 5",
            "extra": "n: 21\nclock: wall\ncache: cold\ngfx: gfx942",
        },
        {"name": "test_a.py::test_a[m=2] cpp", "unit": "us", "value": 2.5, "extra": ""},
        {"name": "test_a.py::test_a[m=4] on gfx950 tri", "unit": "us", "value": 3.5, "extra": ""},
    ]


def test_asv_gets_its_three_files():
    files = {name: json.loads(text) for name, text in asv.files(SIDE, RUN).items()}
    assert [*files] == ["benchmarks.json", "host/machine.json", "host/01234567-optest.json"]
    labels = ["m=1", "m=2", "m=3", "m=4 on gfx950"]
    assert files["benchmarks.json"]["version"] == 2
    assert files["benchmarks.json"]["test_a.test_a.cpp"] == {
        "code": "",
        "name": "test_a.test_a.cpp",
        "param_names": ["case"],
        "params": [labels],
        "timeout": 60.0,
        "type": "time",
        "unit": "seconds",
        "version": "1",
    }
    assert files["host/machine.json"] == {
        "arch": "gfx942",
        "cpu": "A card",
        "machine": "host",
        "num_cpu": "",
        "os": "",
        "ram": "",
        "version": 1,
    }
    results = files["host/01234567-optest.json"]
    assert results["version"] == 2
    assert results["commit_hash"] == COMMIT
    assert results["date"] == 1500
    assert results["env_vars"] == {"A": "1"}
    assert results["params"]["machine"] == "host"
    names = {"test_a.test_a.cpp", "test_a.test_a.bad_one", "test_a.test_a.tri"}
    assert {*results["results"]} == names
    row = dict(zip(results["result_columns"], results["results"]["test_a.test_a.cpp"], strict=True))
    assert row == {
        "result": [11e-6, 2.5e-6, None, None],
        "params": [labels],
        "version": "1",
        "started_at": 1500,
        "duration": None,
        # Rank 5 and 17 of 21: P(binomial(21, 1/2) < 5) is 0.36 %, below 0.5 %; of rank 6 1.3 %.
        "stats_ci_99_a": [pytest.approx(5e-6), None, None, None],
        "stats_ci_99_b": [pytest.approx(17e-6), None, None, None],
        "stats_q_25": [pytest.approx(6e-6), None, None, None],
        "stats_q_75": [pytest.approx(16e-6), None, None, None],
        "stats_number": [1, None, None, None],
        "stats_repeat": [21, None, None, None],
    }
    assert results["results"]["test_a.test_a.bad_one"][0] == [None]


def test_asv_keeps_the_cases_of_earlier_runs():
    before = asv.files(side("r", case(9, {"cpp": TIMED, "old": TIMED})), RUN)[asv.BENCHMARKS]
    after = json.loads(asv.files(SIDE, RUN, before)[asv.BENCHMARKS])
    assert after["test_a.test_a.cpp"]["params"] == [["m=9", "m=1", "m=2", "m=3", "m=4 on gfx950"]]
    assert after["test_a.test_a.old"]["params"] == [["m=9"]]


def test_names_that_come_to_the_same_get_numbers():
    cells = {"a|b": TIMED, "a b": TIMED}
    cases = [case(1, cells), case(1, {"a|b": TIMED}, file="other/test_a.py"), case(2, cells)]
    described = json.loads(asv.files(side("r", *cases), RUN)[asv.BENCHMARKS])
    params = {name: each["params"][0] for name, each in described.items() if name != "version"}
    assert params == {
        "test_a.test_a.a_b": ["m=1", "m=2"],
        "test_a.test_a.a_b_2": ["m=1", "m=2"],
        "test_a.test_a.a_b_3": ["m=1"],
    }


@pytest.mark.parametrize("host", ["../../etc", "a/b", "..", "", "name with\nline"])
def test_no_name_leads_out_of_the_folder(host):
    made = asv.files(side("r", case(1, {"c": TIMED}), places=[replace(HERE, host=host)]), RUN)
    for name in made:
        parts = name.split("/")
        assert len(parts) <= 2
        assert ".." not in parts
        assert all(part and "\n" not in part for part in parts)


@pytest.mark.parametrize(
    ("said", "run", "before", "words"),
    [
        ({}, Run("r", RunFacts(), "complete", 1.0), None, "it knows no commit"),
        ({"places": [HERE, replace(HERE, host="b")]}, RUN, None, "it ran on several machines"),
        ({}, RUN, "{", "benchmarks.json: not what optest export"),
        ({}, RUN, '{"version": 1}', "benchmarks.json: not what"),
        ({}, RUN, "[]", "benchmarks.json: not what"),
        (
            {},
            RUN,
            '{"version": 2, "x": {"params": [["1"]], "param_names": ["n"]}}',
            "benchmarks.json: not what",
        ),
    ],
)
def test_what_asv_cannot_take_is_refused(said, run, before, words):
    with pytest.raises(UsageError, match=words):
        asv.files(side("r", case(1, {"cpp": TIMED}), **said), run, before)


def test_a_case_without_an_id_of_ours_is_named_by_its_table():
    cases = [Case("gemm[m=1]", table="gemm", cells={"": TIMED})]
    described = json.loads(asv.files(side("r", *cases), RUN)[asv.BENCHMARKS])
    assert described["gemm"]["params"] == [["m=1"]]


@pytest.fixture
def stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store.open(f"sqlite:///{tmp_path / '.optest' / 'results.sqlite'}") as store:
        run = store.begin(FACTS)
        store.plan(run, [planned(1)])
        store.record(run, result(1, row={"gfx": "cpu", "cpp us": timing(SAMPLES)}, checks=[]))
        store.end(run, "complete")
    return tmp_path


def test_the_command_writes_both(stored):
    done = CliRunner().invoke(
        app, ["export", "--format", "github-action-benchmark", "-o", "b.json"]
    )
    assert done.exit_code == 0, done.output
    (entry,) = json.loads((stored / "b.json").read_text())
    assert (entry["name"], entry["value"]) == ("test_a.py::test_a[m=1] cpp", 2.5)
    (stored / "results").mkdir()
    earlier = asv.files(side("r", case(9, {"cpp": TIMED})), RUN)[asv.BENCHMARKS]
    (stored / "results/benchmarks.json").write_text(earlier)
    for _ in range(2):
        done = CliRunner().invoke(app, ["export", "--format", "asv", "-o", "results"])
        assert done.exit_code == 0, done.output
    names = {path.relative_to(stored).as_posix() for path in stored.glob("results/**/*.json")}
    assert names == {
        "results/benchmarks.json",
        "results/host/machine.json",
        "results/host/c0ffee00-optest.json",
    }
    described = json.loads((stored / "results/benchmarks.json").read_text())
    assert described["test_a.test_a.cpp"]["params"] == [["m=9", "m=1"]]


def test_a_form_that_there_is_not_is_2(stored, caplog):
    done = CliRunner().invoke(app, ["export", "--format", "xml", "-o", "b.xml"])
    assert done.exit_code == 2
    assert "--format 'xml'" in done.output + caplog.text
