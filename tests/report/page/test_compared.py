"""The view of two runs: what compare says of them, whole, marked where they are not alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
import report_examples as examples

from optest.compare import judge, results
from optest.report import chosen, document
from optest.report.compared import compared


def of(store, first, second, facts=None):
    runs = [
        examples.keep(store, first, examples.facts()),
        examples.keep(store, second, facts or examples.facts()),
    ]
    return chosen.read(store, runs, 0)


def columns(made):
    return {
        each["name"]: each["numbers"] if "numbers" in each else examples.words(each)
        for each in made["table"]["columns"]
    }


def test_every_line_of_the_comparison_is_there_worst_first(store):
    wrong = examples.gemm(examples.unit(64), {"cpp": 17.8}, "failed", reason="cpp: wrong")
    wrong.row["cpp err"] = examples.verdict(0.5, "fail")
    alike = examples.sweep(sizes=range(100, 112))
    before = [*alike, *(examples.gemm(examples.unit(m), {"cpp": 17.8}) for m in (64, 65))]
    found = of(store, before, [*alike, wrong, examples.gemm(examples.unit(65), {"cpp": 71.2})])
    made = compared(found)
    told = judge.compared(
        *(results.side(r.id, rs, r.facts) for r, rs in zip(found.runs, found.results, strict=True))
    )
    shown = columns(made)
    lines = told.worst_first
    assert shown["verdict"] == [str(line.verdict) for line in lines]
    assert shown["verdict"][:2] == ["now wrong", "slower"]
    assert "slower" not in shown["verdict"][2:]
    assert shown["id"] == [line.case for line in lines] == made["table"]["ids"]
    assert shown["change"][1] == pytest.approx(4.0, rel=0.01)
    assert shown["base us"][1] * shown["change"][1] == pytest.approx(shown["head us"][1], rel=0.02)
    assert shown["head us"][1] == 71.2
    assert shown["from"][1] < shown["change"][1] < shown["to"][1]
    assert made["table"]["bad"] == [0, 1]
    assert examples.words(made["table"]["reasons"]) == [line.reason or None for line in lines]
    assert lines[0].reason == "failed"
    assert made["notes"] == list(told.notes) != []
    assert made["counts"] == {str(verdict): count for verdict, count in told.counts.items()}
    assert {each["candidate"] for each in made["means"]} == {"cpp", "inductor"}
    assert made["differences"] == []


def test_runs_of_two_machines_are_shown_and_said_to_be_unlike(store):
    place = replace(examples.PLACE, device="Another CPU", host="elsewhere")
    other = [replace(each, place=place) for each in examples.sweep(sizes=(16,))]
    made = compared(of(store, examples.sweep(sizes=(16,)), other, examples.facts(place=place)))
    assert any("Another CPU" in line for line in made["differences"]), made["differences"]
    assert len(made["table"]["ids"]) == 4


def test_runs_with_no_case_in_common_say_so_instead(store):
    made = compared(of(store, examples.sweep(sizes=(16,)), examples.sweep(sizes=(17,))))
    assert "no case in common" in made["fault"]
    assert "table" not in made


def test_one_run_and_three_are_no_comparison(store):
    runs = [examples.keep(store, examples.sweep(sizes=(16,))) for _ in range(3)]
    assert document.data(chosen.read(store, runs[:1], 0))["compare"] is None
    assert document.data(chosen.read(store, runs, 0))["compare"] is None
