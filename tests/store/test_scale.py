"""A store that years of sweeps have filled still answers at once."""

from __future__ import annotations

import time

import filled_store
import pytest
from sqlalchemy import event
from store_examples import FACTS, result

from optest.store import Store

CASES = 4_000
BAR_S = 0.2  # of a store of a million measures; this one holds a tenth, so that filling it is short


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    at = f"sqlite:///{tmp_path_factory.mktemp('filled') / 'results.sqlite'}"
    return at, filled_store.fill(at, 100_000, CASES)


def test_it_holds_what_the_bench_says_it_does(filled):
    at, made = filled
    with Store.open(at) as store:
        runs = store.runs()
        assert [run.id for run in runs] == made.runs[::-1]
        assert runs[0].totals == {"passed": CASES // 2, "missing": CASES // 2}
        assert runs[-1].totals == {"passed": CASES}
        last = store.latest(made.case_ids[0])
        assert last == filled_store.result_of(last.planned)
        count = store._database.read(
            lambda c: c.exec_driver_sql("SELECT count(*) FROM measures").scalar()
        )
        assert count == 100_000 + CASES // 2 * filled_store.MEASURES


def test_questions_are_answered_at_once(filled):
    at, made = filled
    # The least of three: a busy machine only ever adds.
    rounds = [dict(filled_store.answers(at, made)) for _ in range(3)]
    least = {question: min(each[question] for each in rounds) for question in rounds[0]}
    assert least.pop("what to expect of every case") < 1.0
    assert {question: s for question, s in least.items() if s >= BAR_S} == {}


def test_no_question_walks_through_a_table(filled):
    at, made = filled
    with Store.open(at) as store:
        engine = store._database._engine
        asked = []

        @event.listens_for(engine, "before_cursor_execute")
        def note(connection, cursor, statement, parameters, *_):
            if "FROM cases" in statement and "EXPLAIN" not in statement:
                asked.append((statement, parameters))

        store.latest(made.case_ids[0], gfx="cpu", mode="run", good=True)
        store.missing(made.runs[-1])
        store.planned(made.runs[-1])
        next(store.results(made.runs[0]))
        plan = store.planned(made.runs[-1])[:10]
        store.expected(plan, mode="run", gfx="cpu")
        store.record(made.runs[-1], result(1))
        event.remove(engine, "before_cursor_execute", note)
        with engine.connect() as connection:
            steps = [
                step[-1]
                for statement, parameters in asked
                for step in connection.exec_driver_sql(
                    f"EXPLAIN QUERY PLAN {statement}", parameters
                )
            ]
    assert len(asked) >= 8
    walks = [step for step in steps if step.startswith("SCAN") and "runs" not in step]
    assert walks == []


def test_storing_a_case_costs_a_millisecond_at_most(sqlite):
    run = sqlite.begin(FACTS)
    sqlite.plan(run, [result(n).planned for n in range(600)])
    made = [result(n) for n in range(600)]
    spent = []
    for each in made:
        started = time.thread_time()  # others use this machine too
        sqlite.record(run, each)
        spent.append(time.thread_time() - started)
    hundreds = [sorted(spent[n : n + 100])[50] for n in range(0, 600, 100)]
    assert min(hundreds) < 1e-3


def test_planning_twenty_thousand_units_takes_a_moment(sqlite):
    run = sqlite.begin(FACTS)
    units = filled_store.units()
    started = time.perf_counter()
    sqlite.plan(run, units)
    assert time.perf_counter() - started < 5
    assert sqlite.missing(run) == units
