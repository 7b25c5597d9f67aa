"""What a page holds: numbers as measured, failures, the past, and no way out of its JSON."""

from __future__ import annotations

import json
import math
import random
import re
from html.parser import HTMLParser
from importlib import resources

import pytest
import report_examples as examples
from report_examples import words

from optest.errors import StoreError, UsageError
from optest.report import chosen, column, document, failures, history, section
from optest.report.cells import cell
from optest.store.records import Place, Planned, Result


def data_of(store, *refs, past=30):
    return document.data(chosen.read(store, refs or ("latest",), past))


def column_of(shown, name):
    (found,) = (each for each in shown["columns"] if each["name"] == name)
    return found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("nan", None),
        (math.nan, None),
        ("inf", "inf"),
        (-math.inf, "-inf"),
        (True, "True"),
        (4096, 4096),
        (2**60, str(2**60)),
        (12.3456789, 12.3457),
        (3.0, 3),
        (1e-9, 1e-9),
        ("bf16", "bf16"),
        ([1, 2], "[1, 2]"),
        (examples.timing(12.5), 12.5),
        (examples.verdict(0.25, "fail"), 0.25),
        ({"a": 1}, '{"a": 1}'),
    ],
)
def test_a_cell(value, expected):
    found = cell(value)
    assert found == expected
    assert type(found) is type(expected)


def test_a_row_has_arguments_card_and_every_candidates_measures(store):
    examples.keep(store, examples.sweep(sizes=(16, 64)))
    (shown,) = data_of(store)["sections"]
    assert shown["ids"][0] == "test_gemm.py::test_gemm[m=16-n=64-dtype=bf16]"
    assert column_of(shown, "m")["numbers"] == [16, 64, 16, 64]
    assert words(column_of(shown, "dtype")) == ["bf16", "bf16", "fp32", "fp32"]
    assert words(column_of(shown, "gfx")) == ["cpu"] * 4
    assert column_of(shown, "cpp us")["numbers"] == [8.2, 17.8, 13, 37]
    assert column_of(shown, "inductor us")["numbers"] == [12.3, 26.7, 19.5, 55.5]
    assert shown["candidates"] == ["cpp", "inductor"]
    assert [each["name"] for each in shown["columns"]][:5] == ["status", "m", "n", "dtype", "gfx"]


def test_columns_of_a_candidate_stand_together_also_where_a_later_row_brings_one(store):
    names = ("cpp us", "inductor us"), ("cpp us", "cpp TFLOPS", "inductor us", "inductor TFLOPS")
    rows = [dict.fromkeys(some, 1.0) for some in names]
    found = [
        Result(examples.unit(m), "passed", row=row, place=examples.PLACE)
        for m, row in enumerate(rows)
    ]
    examples.keep(store, found)
    (shown,) = data_of(store)["sections"]
    measures = [each["name"] for each in shown["columns"] if each["role"] == "measure"]
    assert measures == ["cpp us", "cpp TFLOPS", "inductor us", "inductor TFLOPS"]


def test_a_case_that_was_skipped_is_no_row(store):
    left_out = Result(examples.unit(32), "skipped", "no such card", place=examples.PLACE)
    examples.keep(store, [examples.gemm(examples.unit(16), {"cpp": 5.0}), left_out])
    (shown,) = data_of(store)["sections"]
    assert column_of(shown, "m")["numbers"] == [16]


def test_how_a_time_was_measured_is_said_in_words():
    timed = column.Column("measure", "cpp", "us")
    more = {"contended": True, "kernels": ["gemm_256"], "notes": ["one call"]}
    timed.put(0, {**examples.timing(20.0), **more})
    assert words(timed.as_json(2, 9)["timing"]["how"]) == [
        "wall clock; cold caches; most samples preempted; launched gemm_256; one call",
        None,
    ]


def test_cases_that_died_or_failed_stand_in_the_table_and_among_the_failures(store):
    examples.keep(store, [*examples.sweep(sizes=(16,)), *examples.failing()])
    data = data_of(store)
    (shown,) = data["sections"]
    assert words(column_of(shown, "status"))[2:] == ["error", "failed", "crashed"]
    assert column_of(shown, "cpp us")["numbers"][2:] == [None, 9, None]
    assert column_of(shown, "cpp err")["marks"] == {"3": "fail"}
    assert [each["status"] for each in data["failures"]] == ["error", "failed", "crashed"]
    assert data["failures"][2]["text"] == "stack"
    assert data["failures"][2]["alone"] == (
        "OPTEST_ONLY='test_gemm.py::test_gemm[m=48-n=64-dtype=bf16]' python op_tests/test_gemm.py"
    )
    assert data["runs"][0]["totals"] == {"passed": 2, "error": 1, "failed": 1, "crashed": 1}


def test_what_makes_a_time_a_bound_is_said_of_its_row(store):
    busy = examples.gemm(
        examples.unit(16), {"cpp": 5.0}, neighbours=3, left=["threads"], unguarded=["alias"]
    )
    quiet = examples.gemm(examples.unit(32), {"cpp": 5.0})
    examples.keep(store, [busy, quiet])
    noted, nothing = words(data_of(store)["sections"][0]["notes"])
    assert "beside 3 other cases" in noted
    assert "left changed in its process: threads" in noted
    assert "not guarded: alias" in noted
    assert nothing is None


def test_a_script_that_ran_whole_and_failed_is_a_failure_but_no_row(store):
    whole = Planned("test_whole.py", "op_tests/test_whole.py")
    examples.keep(store, [Result(whole, "hung", "it took longer than 5 s", place=examples.PLACE)])
    data = data_of(store)
    assert data["sections"] == []
    assert [each["alone"] for each in data["failures"]] == ["python op_tests/test_whole.py"]


def test_ceilings_give_each_timed_candidate_its_share_of_the_limit(store):
    examples.with_peaks(store)
    examples.keep(store, examples.sweep(sizes=(1024,)))
    data = data_of(store)
    (shown,) = data["sections"]
    flops, nbytes = 2 * 1024 * 64 * 64, 2 * (1024 * 64 + 64 * 64 + 1024 * 64)
    for row, (us, peak) in enumerate(((209.8, 0.4e12), (517.0, 0.1e12))):
        limit_s = max(flops / peak, nbytes / 20e9)  # the roofline, as a time
        expected = limit_s / (us * 1e-6)
        found = column_of(shown, "cpp share of limit")["numbers"][row]
        assert found == pytest.approx(expected, rel=1e-5)
    assert shown["dtypes"] == ["bf16", "fp32"]
    assert data["peaks"]["cpu A CPU"]["ceilings"][0]["value"] == 20e9


def test_without_ceilings_no_share_is_made_up(store):
    examples.keep(store, examples.sweep(sizes=(16,)))
    data = data_of(store)
    assert data["peaks"] == {}
    assert not [c for c in data["sections"][0]["columns"] if "limit" in c["name"]]


def test_arithmetic_is_in_the_quantised_dtype_where_a_case_has_one():
    quantised = Planned("a::b", "a", "b", {"quant_dtype": "fp8", "dtype": "bfloat16"})
    plain = Planned("a::b", "a", "b", {"dtype": "torch.bfloat16"})
    assert section.arithmetic(Result(quantised, "passed")) == "fp8"
    assert section.arithmetic(Result(plain, "passed")) == "bf16"
    assert section.arithmetic(Result(Planned("a::b", "a", "b", {"m": 1}), "passed")) == ""


def test_history_is_of_the_same_case_on_the_same_machine_up_to_the_reported_run(store):
    elsewhere = Place("another", "cpu", "A CPU")
    moved = [r.planned for r in examples.sweep(sizes=(16,))]
    first = examples.keep(store, examples.sweep(sizes=(16,)))
    others = [examples.gemm(unit, {"cpp": 99.0}, place=elsewhere) for unit in moved]
    examples.keep(store, others)
    examples.keep(store, examples.sweep(sizes=(16,)), examples.facts(mode="check"))
    examples.keep(store, [examples.gemm(moved[0], {"cpp": 1.0}, "failed", reason="wrong")])
    second = examples.keep(store, examples.sweep(sizes=(16,), slower=2.0))
    data = data_of(store, second)
    assert [run["id"] for run in data["history"]["runs"]] == [first, second]
    assert data["sections"][0]["history"]["cpp us"]["0"] == [[0, 1], [8.2, 16.4], []]
    assert data_of(store, first)["sections"][0]["history"] == {}
    assert data_of(store, second, past=0)["sections"][0]["history"] == {}


def test_history_is_the_newest_runs_that_a_page_bears_and_says_how_many_it_left_out(
    store, monkeypatch
):
    runs = [examples.keep(store, examples.sweep(sizes=(16,))) for _ in range(4)]
    of_two_runs = 8  # medians: two dtypes with two candidates in each
    monkeypatch.setattr(history, "_MOST", of_two_runs)
    held = data_of(store, past=4)["history"]
    assert [run["id"] for run in held["runs"]] == runs[2:]
    assert held["left_out"] == 2
    assert data_of(store, past=2)["history"]["left_out"] == 0
    monkeypatch.setattr(history, "_MOST", 1)
    assert [run["id"] for run in data_of(store)["history"]["runs"]] == runs[3:]


def test_a_median_of_nothing_is_no_part_of_the_history(store):
    for us in (5.0, 0.0, 6.0):
        one = examples.gemm(examples.unit(16), {"cpp": 5.0})
        one.row["cpp us"] = examples.timing(us)
        examples.keep(store, [one])
    past = data_of(store)["sections"][0]["history"]
    assert past["cpp us"]["0"] == [[0, 1], [5.0, 6.0], []]


def test_history_names_the_run_since_which_a_case_is_slower(store):
    for slower in (1.0, 1.001, 0.999, 1.0, 1.2, 1.201, 1.199):
        examples.keep(store, examples.sweep(sizes=(64,), slower=slower))
    past = data_of(store)["sections"][0]["history"]
    assert past["cpp us"]["0"][2] == [[4, 1.2]]
    assert past["inductor us"]["0"][2] == []


def test_of_two_runs_each_row_says_which_it_is_of(store):
    runs = [examples.keep(store, examples.sweep(sizes=(16,))) for _ in range(2)]
    (shown,) = data_of(store, *runs)["sections"]
    assert words(column_of(shown, "run")) == [runs[0], runs[0], runs[1], runs[1]]


def test_the_same_run_twice_is_refused_and_an_unknown_one_too(store):
    run = examples.keep(store, examples.sweep(sizes=(16,)))
    with pytest.raises(UsageError, match=f"it is {run}, which was given before"):
        chosen.read(store, [run, "latest"], 0)
    with pytest.raises(StoreError, match="holds no run of that id"):
        chosen.read(store, ["nonsense"], 0)


def test_many_samples_are_thinned_to_quantiles_that_keep_the_ends_and_the_median(monkeypatch):
    draws = random.Random(3)
    samples = [draws.lognormvariate(3.0, 0.2) for _ in range(101)]
    timed = column.Column("measure", "cpp", "us")
    timed.put(0, {**examples.timing(20.0), "samples_us": samples})
    (kept,) = timed.as_json(1, 9)["timing"]["samples"]
    ordered = sorted(samples)
    # Quantiles in steps of an eighth of 101 ordered values: every 12.5th place.
    assert kept[0] == pytest.approx(ordered[0], rel=1e-4)
    assert kept[4] == pytest.approx(ordered[50], rel=1e-4)
    assert kept[2] == pytest.approx(ordered[25], rel=1e-4)
    assert kept[8] == pytest.approx(ordered[100], rel=1e-4)
    assert len(kept) == 9
    assert len(timed.as_json(1, 101)["timing"]["samples"][0]) == 101


def test_a_page_thins_the_samples_of_all_timings_alike_and_says_so(store, monkeypatch):
    examples.keep(store, examples.sweep(sizes=(16,)))  # four timings of 25 samples
    whole = data_of(store)
    assert whole["thinned"] == 0
    monkeypatch.setattr(section, "ALL_SAMPLES", 60)
    thinned = data_of(store)
    assert thinned["thinned"] == 15
    for data, count in ((whole, 25), (thinned, 15)):
        timings = [each["timing"] for each in data["sections"][0]["columns"] if "timing" in each]
        assert [len(samples) for timing in timings for samples in timing["samples"]] == [count] * 4
    monkeypatch.setattr(section, "ALL_SAMPLES", 20)
    assert data_of(store)["thinned"] == column.FEWEST


def test_a_page_of_endless_failure_texts_stays_small(store):
    texts = [
        Result(examples.unit(m), "crashed", "k" * 9_000, "x" * 200_000, place=examples.PLACE)
        for m in range(400)
    ]
    found = failures.failures(chosen.Chosen([], [texts]))
    assert len(found) == 400
    assert sum(len(each["text"]) for each in found) < 2_100_000
    assert "192000 characters left out" in found[0]["text"]
    assert found[0]["reason"] == "k" * 2_000
    assert found[-1]["text"] == ""
    assert found[-1]["cut"] is True
    assert found[0]["cut"] is False


class Elements(HTMLParser):
    """Tags of a page, and the text of its data."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.data, self._in = [], [], "", False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._in = ("id", "data") in attrs

    def handle_endtag(self, tag):
        self._in = False

    def handle_data(self, data):
        self.data += data if self._in else ""


NAMES = [examples.HOSTILE, "<!--", "]]>", "\ud800", "\x00\u2029", "{{braces}} %s", "'\"`"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_no_name_leaves_the_data(store, name):
    unit = Planned(f"t.py::t[{name}]", "t.py", "t", {name: name}, table=name)
    examples.keep(store, [Result(unit, "failed", name, name, row={f"{name} us": 1.0})])
    text = document.page(chosen.read(store, ["latest"], 30))
    seen = Elements()
    seen.feed(text)
    assert seen.tags.count("script") == 2
    assert "img" not in seen.tags
    shown = json.loads(seen.data)
    assert shown["failures"][0]["id"] == unit.id
    assert shown["failures"][0]["reason"] == name
    assert shown["sections"][0]["ids"] == [unit.id]
    raw = re.search('id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert not re.search("[<>&\u2028\u2029]", raw)
    assert raw.isascii()


def test_a_page_names_no_other_file_and_its_policy_allows_no_connection(store):
    examples.keep(store, examples.sweep(sizes=(16,)))
    text = document.page(chosen.read(store, ["latest"], 30))
    seen = Elements()
    seen.feed(text)
    attributes = dict(seen.attributes)
    assert not {"src", "srcset", "data", "action", "background"} & set(attributes)
    assert [value for name, value in seen.attributes if name == "href"] == ["#main"]
    assert attributes["content"]
    (policy,) = (value for _, value in seen.attributes if (value or "").startswith("default-src"))
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg|http-equiv", "", text)


def test_every_script_that_is_there_is_in_the_page():
    folder = resources.files("optest.report") / "page"
    found = {path.name.removesuffix(".js") for path in folder.iterdir() if path.suffix == ".js"}
    assert found == set(document._SCRIPTS)


def test_the_scripts_write_text_and_never_markup():
    for name in document._SCRIPTS:
        script = document._asset(f"{name}.js")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|srcdoc"
            r"|fetch\(|XMLHttpRequest|WebSocket|import\(|</script",
            script,
        ), name
