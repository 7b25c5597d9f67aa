"""JUnit XML that every reader takes, whatever the cases printed."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from optest.report import junit
from optest.store.records import Place, Planned, Result, RunFacts
from optest.sweep.executor import Collection
from optest.sweep.request import Request
from optest.sweep.sweep_outcome import Outcome

HOSTILE = "\x00\x1b[31m<&\"'>]]>\ud800\ufffe\r\né🚀\x85"


def case(m, file="ops/test_a.py", function="test_a", where=""):
    name = file.rpartition("/")[2]
    return Planned(f"{name}::{function}[m={m}]", file, function, {"m": m}, where)


WHOLE = Planned("test_w.py", "ops/test_w.py")
RESULTS = [
    Result(case(1), "passed", seconds=0.5, started=1_700_000_000.0),
    Result(case(2), "failed", "wrong", "Traceback", seconds=0.25),
    Result(case(3), "crashed", HOSTILE, HOSTILE),
    Result(case(4), "skipped", "no"),
    Result(case(5), "hung", "too long"),
    Result(case(6), "empty"),
    Result(case(1, "ops/test_w.py", "test_w"), "error", "ValueError"),
    Result(WHOLE, "failed", "exit code 1"),
]
COLLECTIONS = [
    Collection("ops/test_a.py"),
    Collection("ops/test_f.py", fault="SyntaxError\x0b"),
    Collection("ops/test_g.py", gated="not for cpu"),
    Collection("ops/test_w.py", whole="KeyError"),
]
OUTCOME = Outcome(
    Request(paths=("ops",)),
    COLLECTIONS,
    run="R",
    facts=RunFacts(place=Place(host="host")),
    planned=[*(case(m) for m in range(1, 8)), WHOLE],
    results=RESULTS,
)


def read(outcome=OUTCOME):
    root = ET.fromstring(junit.document(outcome).encode("utf-8"))
    return root, {suite.get("name"): suite for suite in root}


def test_a_suite_a_file_a_case_a_case_with_the_sums_that_readers_show():
    root, suites = read()
    assert list(suites) == [each.file for each in COLLECTIONS]
    sums = ("tests", "failures", "errors", "skipped")
    assert {name: tuple(int(s.get(k)) for k in sums) for name, s in suites.items()} == {
        "ops/test_a.py": (7, 1, 2, 2),
        "ops/test_f.py": (1, 0, 1, 0),
        "ops/test_g.py": (1, 0, 0, 1),
        "ops/test_w.py": (1, 0, 1, 0),
    }
    assert {k: v for k, v in root.items() if k != "time"} == {
        "name": "optest",
        "tests": "10",
        "failures": "1",
        "errors": "4",
    }
    assert suites["ops/test_a.py"].get("timestamp") == "2023-11-14T22:13:20"
    assert suites["ops/test_a.py"].get("hostname") == "host"
    assert float(suites["ops/test_a.py"].get("time")) == 0.75


def test_a_case_says_where_it_is_how_long_it_took_and_why_it_failed():
    _, suites = read()
    by_name = {case.get("name"): case for case in suites["ops/test_a.py"]}
    failed = by_name["test_a.py::test_a[m=2]"]
    assert (failed.get("classname"), failed.get("time")) == ("test_a", "0.250")
    (failure,) = failed.findall("failure")
    assert (failure.get("message"), failure.get("type")) == ("wrong", "failed")
    assert failed.findtext("system-out") == "Traceback"
    not_run = by_name["test_a.py::test_a[m=7]"].find("skipped")
    assert not_run.get("message") == "not run: the sweep ended before"


def test_text_that_xml_cannot_hold_is_spelt_out_and_the_rest_is_kept():
    _, suites = read()
    (crashed,) = (c for c in suites["ops/test_a.py"] if c.get("name").endswith("[m=3]"))
    text = crashed.findtext("system-out")
    for words in ("\\x00", "\\x1b[31m", "<&\"'>]]>", "\\ud800", "\\ufffe", "é🚀"):
        assert words in text
        assert words in crashed.find("error").get("message")


def test_a_case_of_two_cards_is_two_cases():
    units = [case(1, where="gfx942"), case(1, where="sm_90")]
    results = [Result(unit, "passed") for unit in units]
    _, suites = read(Outcome(OUTCOME.request, planned=units, results=results))
    names = [each.get("name") for each in suites["ops/test_a.py"]]
    assert names == ["test_a.py::test_a[m=1] on gfx942", "test_a.py::test_a[m=1] on sm_90"]


@pytest.mark.parametrize("length", [10, 1 << 20])
def test_a_long_text_loses_its_middle(length):
    outcome = Outcome(OUTCOME.request, results=[Result(case(1), "failed", "x", "a" * length + "z")])
    _, suites = read(Outcome(OUTCOME.request, planned=[case(1)], results=outcome.results))
    text = suites["ops/test_a.py"][0].findtext("system-out")
    assert text.endswith("z")
    assert len(text) < (1 << 17)
    assert ("left out" in text) == (length > 1000)
