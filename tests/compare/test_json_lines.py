"""Files of JSON lines: exports and events are read whole, all else is refused with its line."""

from __future__ import annotations

import json

import pytest
from store_examples import FACTS, planned, result, timing, verdict

from optest.compare import json_lines, results, sources
from optest.errors import UsageError
from optest.store import Store
from optest.store.export import export
from optest.store.records import RunFacts


@pytest.fixture
def exported(tmp_path):
    """A run in a store, and the same run as a file."""
    with Store.open(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        run = store.begin(FACTS)
        store.plan(run, [planned(n) for n in range(3)])
        for n, status in enumerate(("passed", "failed", "crashed")):
            store.record(run, result(n, status))
        store.end(run, "complete")
        path = tmp_path / "run.jsonl"
        export(store, store.find(run), path)
        yield store, run, path


def test_an_exported_run_is_the_run_in_the_store(exported):
    store, run, path = exported
    of_store = sources.of_run(store, store.find(run))
    of_file = sources.of_file("run.jsonl", path)
    assert of_file.cases == of_store.cases
    assert of_file.places == of_store.places
    assert of_file.settings == of_store.settings == {"mode": "run", "A": "1"}
    assert of_file.versions == of_store.versions
    assert of_file.name == f"run.jsonl (run {run})"


def test_cases_of_a_store(exported):
    store, run, _ = exported
    passed, failed, crashed = sources.of_run(store, store.find(run)).cases
    assert passed.cells["cpp"].us == 2.5
    assert [*passed.cells["cpp"].samples] == [1.5, 2.5, 3.5]
    assert not passed.wrong
    assert failed.cells["cpp"].wrong == "3 of 10 are off"
    assert not failed.wrong  # its candidates say which of them it is
    assert crashed.wrong == "crashed: cpp: 3 of 10 are off"
    assert (passed.gfx, passed.arguments, passed.table) == ("cpu", {"m": "0"}, "A")


def event(name, case="t.py::test_t[m=1]", **said):
    return json.dumps({"event": name, "time": 1.0, "pid": 2, "id": case, **said})


def test_events_of_a_script():
    row = {"gfx": "cpu", "cpp us": timing(), "cpp err": 0.0}
    text = "\n".join(
        [
            event("started", arguments={"m": 1, "dtype": None}, file="t.py"),
            event("note", anything=1),
            event("finished", status="passed", row=row),
            event("started", case="t.py::test_t[m=2]", arguments={"m": 2}),
            event("finished", case="t.py::test_t[m=2]", status="error", reason="it broke", row={}),
            event("started", case="t.py::test_t[m=3]", arguments={"m": 3}),
        ]
    )
    good, bad = json_lines.side("e.jsonl", text).cases
    assert (good.arguments, good.table, good.gfx) == ({"m": "1", "dtype": ""}, "test_t", "cpu")
    assert good.cells["cpp"].us == 2.5
    assert bad.wrong == "it broke"


def test_the_later_of_two_results_counts_and_that_is_said():
    texts = [
        event("finished", status="passed", row={"us": {**timing(), "median_us": us}})
        for us in (9.0, 3.0)
    ]
    side = json_lines.side("e.jsonl", "\n".join(texts))
    assert [case.cells[""].us for case in side.cases] == [3.0]
    assert side.notes == ["e.jsonl: 1 results of cases that are told of again later"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1: no JSON"),
        (event("finished", status="passed", row={}) + '\n{"event": "fin', "line 2: no JSON"),
        ('{"a": 1}', "line 1: expected a line of optest export"),
        ("[1]", "line 1: expected a JSON object, found list"),
        ("[" * 100_000, "line 1: no JSON"),
        (event("started"), "no case came to its end"),
        (event("finished"), "line 1: a result whose fields"),
        (event("finished", status="good", row={}), "line 1: a result whose fields"),
        (event("finished", status=["passed"], row={}), "line 1: a result whose fields"),
        (event("finished", status="passed", row=[1]), "line 1: a result whose fields"),
        ('{"planned": 3}', "line 1: a result whose fields"),
        ('{"planned": {"id": "x"}}', "line 1: a result whose fields"),
        ('{"event": "finished"}', "line 1: a result whose fields"),
        ('{"planned": {"id": 5, "file": "f"}, "status": "passed"}', "line 1: a result whose"),
        (
            '{"planned": {"id": "a::b", "file": "f", "arguments": []}, "status": "passed"}',
            "line 1: a result whose",
        ),
        (
            '{"planned": {"id": "a::b", "file": "f"}, "status": "passed", "place": {"host": 3}}',
            "line 1: a result whose",
        ),
        (
            '{"run": {"environment": 3}, "planned": {"id": "a", "file": ""}, "status": "empty"}',
            "a run whose facts",
        ),
    ],
)
def test_what_is_no_result_is_refused_with_its_line(text, words):
    with pytest.raises(UsageError) as refused:
        json_lines.side("e.jsonl", text)
    assert words in str(refused.value)
    assert str(refused.value).startswith("e.jsonl")


def test_two_runs_in_one_file_are_refused(exported):
    _, _, path = exported
    text = path.read_text()
    other = text.replace('"run": {"id": "2', '"run": {"id": "3')
    with pytest.raises(UsageError, match="results of 2 runs"):
        json_lines.side("two.jsonl", text + other)


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"\xff\xfe\x00", "no UTF-8 text"), (b"", "found no table"), (b"\xef\xbb\xbf{", "no JSON")],
)
def test_files_that_are_no_results(tmp_path, data, words):
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=words):
        sources.of_file("x", path)


@pytest.mark.parametrize(
    "said",
    [
        {"samples_us": 5},
        {"samples_us": ["x"]},
        {"samples_us": [1.0, float("nan")]},
        {"median_us": "fast"},
        {"median_us": float("inf")},
        {"median_us": 10**400},
        {"median_us": 1e308},
        {"samples_us": [1.0, 10**400]},
        {"samples_us": [1.0, -1e308]},
        {"blocks": "abc"},
        {"blocks": [1, 1]},
        {"blocks": [1.0, 2.0]},
        {"clock": None},
    ],
)
def test_a_timing_that_is_none_is_no_time_or_no_samples(said):
    text = event("finished", status="passed", row={"us": {**timing(), **said}})
    (case,) = json_lines.side("e.jsonl", text).cases
    cell = case.cells[""]
    assert cell.blocks == ()
    if "samples_us" in said:
        assert cell.samples == ()
    if "median_us" in said:
        assert not cell.timed


@pytest.mark.parametrize(
    ("err", "wrong"),
    [
        (True, ""),
        (False, "failed"),
        ("PASS", ""),
        ("FAIL", "failed"),
        ("0.3 FAIL", "err 0.3"),
        ("inf", "inf of the elements mismatch"),
        ("nan", ""),
        (10**400, "inf of the elements mismatch"),
        (0.04, ""),
        (0.06, "0.06 of the elements mismatch"),
    ],
)
def test_an_error_without_a_verdict_says_what_it_says_in_a_pasted_table(err, wrong):
    text = event("finished", status="passed", row={"a us": timing(), "a err": err})
    (case,) = json_lines.side("e.jsonl", text).cases
    assert case.cells["a"].wrong == wrong


@pytest.mark.parametrize(
    ("status", "wrong"), [("pass", ""), ("near", ""), ("fail", "3 of 10 are off")]
)
def test_of_a_verdict_its_status_decides(status, wrong):
    text = event("finished", status="passed", row={"a us": timing(), "a err": verdict(0.3, status)})
    (case,) = json_lines.side("e.jsonl", text).cases
    assert case.cells["a"].wrong == wrong


def test_what_was_skipped_is_no_case():
    assert json_lines.side("e.jsonl", event("finished", status="skipped")).cases == []


def test_how_a_run_was_asked_for_is_a_setting_where_it_changes_times():
    said = {"guards": "full", "jobs": 2, "executor": None, "keep": "m=1"}
    made = results.side("r", [], RunFacts(mode="run", environment={"A": "1"}, arguments=said))
    assert made.settings == {"mode": "run", "A": "1", "--guards": "full", "--jobs": "2"}
