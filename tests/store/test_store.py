"""What a store answers: runs by name, what is missing, what is newest, what to expect."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from store_examples import FACTS, PLACE, in_child, planned, result

from optest.errors import StoreError
from optest.store import Store, default_url
from optest.store.records import Expected

SM_90 = replace(PLACE, gfx="sm_90")


def ids(units):
    return [unit.id for unit in units]


def test_a_run_is_running_until_it_is_ended(store):
    run = store.begin(FACTS)
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", run)
    begun = store.find(run)
    assert (begun.id, begun.state, begun.facts, begun.ended) == (run, "running", FACTS, None)
    for state in ("interrupted", "complete"):
        store.end(run, state)
        ended = store.find(run)
        assert ended.state == state
        assert ended.ended >= ended.started == begun.started
    store.reopen(run)
    assert store.find(run) == begun
    with pytest.raises(StoreError, match="state 'done' of a run: expected complete or interrupted"):
        store.end(run, "done")


def test_plan_adds_what_is_new_and_keeps_the_order_of_position(store):
    run = store.begin(FACTS)
    store.plan(run, [planned(2), planned(1)])
    store.plan(run, [planned(1), planned(3), planned(1, where="sm_90", position=9)])
    store.plan(run, [])
    assert store.planned(run) == [
        planned(1),
        planned(2),
        planned(3),
        planned(1, where="sm_90", position=9),
    ]
    assert store.missing(run) == store.planned(run)


def test_the_same_id_in_another_file_or_on_another_node_is_another_unit(store):
    run = store.begin(FACTS)
    units = [planned(1), planned(1, file="other/test_a.py"), planned(1, where="gfx942")]
    store.plan(run, units)
    for unit in units:
        store.record(run, result(1, planned=unit))
    assert {each.planned.key for each in store.results(run)} == {unit.key for unit in units}
    assert store.missing(run) == []


@pytest.mark.parametrize(
    ("status", "is_missing"),
    [
        ("passed", False),
        ("empty", False),
        ("skipped", False),
        ("failed", True),
        ("error", True),
        ("crashed", True),
        ("hung", True),
    ],
)
def test_missing_is_what_has_no_good_result(sqlite, status, is_missing):
    run = sqlite.begin(FACTS)
    sqlite.plan(run, [planned(1), planned(2)])
    sqlite.record(run, result(1, status))
    assert ids(sqlite.missing(run)) == ids([planned(1)] * is_missing + [planned(2)])


def test_a_later_result_takes_the_place_of_an_earlier_one(store):
    run = store.begin(FACTS)
    store.plan(run, [planned(1), planned(2)])
    store.record(run, result(2))
    store.record(run, result(1, "failed"))
    again = result(1, row={"us": 1.0}, checks=[], seconds=9.0)
    store.record(run, again)
    assert list(store.results(run)) == [again, result(2)]
    assert store.find(run).totals == {"passed": 2}
    left = store._database.read(
        lambda c: c.exec_driver_sql("SELECT count(*) FROM failures").scalar()
    )
    assert left == 0


@pytest.mark.parametrize("returning", [True, False], ids=["now", "before SQLite 3.35"])
def test_a_first_result_and_a_second_are_kept_by_any_sqlite(sqlite, monkeypatch, returning):
    monkeypatch.setattr(sqlite._database._engine.dialect, "update_returning", returning)
    run = sqlite.begin(FACTS)
    sqlite.plan(run, [planned(1), planned(2)])
    for seconds in (1.0, 2.0):
        sqlite.record(run, result(1, seconds=seconds))
    (found,) = sqlite.results(run)
    assert found.seconds == 2.0
    assert [each.id for each in sqlite.missing(run)] == [planned(2).id]


def test_what_a_whole_script_ran_is_added_and_never_missing(store):
    run = store.begin(FACTS)
    script = replace(planned(0), id="test_a.py", function="")
    store.plan(run, [script])
    store.record(run, result(5, "failed"))
    assert store.planned(run) == store.missing(run) == [script]
    assert list(store.results(run)) == [result(5, "failed")]
    store.plan(run, [planned(5)])  # now it is asked for
    assert store.missing(run) == [script, planned(5)]


def test_totals_count_what_each_became(store):
    run = store.begin(FACTS)
    store.plan(run, [planned(n) for n in range(5)])
    for n, status in enumerate(("passed", "passed", "hung")):
        store.record(run, result(n, status))
    other = store.begin(FACTS)
    assert [each.totals for each in store.runs()] == [{}, {"passed": 2, "hung": 1, "missing": 2}]
    assert [each.id for each in store.runs(1)] == [other]


@pytest.mark.parametrize(
    ("ref", "which"),
    [
        ("latest", 2),
        ("main", 1),
        ("topic/x", 2),
        ("aaaa", 1),
        ("AAAA", 1),
        ("bbbb" + "0" * 36, 2),
    ],
)
def test_a_run_is_found_by_commit_or_branch_and_the_newest_is_meant(sqlite, ref, which):
    commits = [("main", "a" * 40), ("main", "a" * 40), ("topic/x", "bbbb" + "0" * 36)]
    runs = [sqlite.begin(replace(FACTS, branch=b, commit=c)) for b, c in commits]
    assert sqlite.find(ref).id == runs[which]


def test_a_run_is_found_by_its_id_or_what_only_it_begins_with(sqlite):
    runs = [sqlite.begin(FACTS) for _ in range(3)]
    shared = runs[0][:4]
    for run in runs:
        assert sqlite.find(run).id == run
        if sum(other.startswith(run[:-1]) for other in runs) == 1:
            assert sqlite.find(run[:-1]).id == run
    with pytest.raises(StoreError, match=f"run '{shared}': it may be .*{runs[1]}.*more of the id"):
        sqlite.find(shared)


@pytest.mark.parametrize("ref", ["", "nothing", "%", "_", "latest "])
def test_a_run_that_is_not_there_is_an_error_that_names_what_is(sqlite, ref):
    with pytest.raises(StoreError, match="it holds no run yet: optest run"):
        sqlite.find(ref)
    run = sqlite.begin(FACTS)
    with pytest.raises(StoreError, match=f"{re.escape(repr(ref))}.*latest or one of {run}"):
        sqlite.find(ref)


@pytest.mark.parametrize("method", ["planned", "missing", "results", "record", "plan", "end"])
def test_each_method_refuses_a_run_that_is_not_there(sqlite, method):
    more = {"record": [result(1)], "plan": [[planned(1)]], "end": ["complete"]}.get(method, [])
    with pytest.raises(StoreError, match=r"run '2026': .* holds no run with this id"):
        list(getattr(sqlite, method)("2026", *more) or [])


def test_latest_is_the_newest_result_that_fits(store):
    case = planned(1).id
    assert store.latest(case) is None
    old, checked, new = (store.begin(replace(FACTS, mode=m)) for m in ("run", "check", "run"))
    results = {
        old: result(1, seconds=1.0),
        checked: result(1, seconds=2.0, place=SM_90),
        new: result(1, "failed", seconds=3.0),
    }
    for run in (new, old, checked):  # the order in which they are recorded decides nothing
        store.record(run, results[run])
    assert store.latest(case) == results[new]
    assert store.latest(case, good=True) == results[checked]
    assert store.latest(case, good=True, mode="run") == results[old]
    assert store.latest(case, gfx="sm_90") == results[checked]
    assert store.latest(case, gfx="gfx942") is None
    assert store.latest("test_a.py::test_a[m=2]") is None


def test_what_to_expect_is_what_the_newest_good_result_was(store):
    first, second = store.begin(FACTS), store.begin(FACTS)
    checked = store.begin(replace(FACTS, mode="check"))
    for run, n, status, seconds, place in [
        (first, 1, "passed", 1.0, PLACE),
        (second, 1, "passed", 2.0, PLACE),
        (first, 2, "passed", 3.0, PLACE),
        (second, 2, "failed", 4.0, PLACE),
        (first, 3, "skipped", 5.0, PLACE),
        (checked, 4, "passed", 6.0, PLACE),
        (first, 5, "empty", 7.0, SM_90),
    ]:
        store.record(run, result(n, status, seconds=seconds, place=place, device_peak_bytes=n))
    units = [planned(n) for n in range(7)]
    on_card = planned(5, where="sm_90")

    def seconds(**asked):
        return {key[1]: found.seconds for key, found in store.expected(units, **asked).items()}

    named = {n: planned(n).id for n in range(7)}
    assert seconds() == {named[1]: 2.0, named[2]: 3.0, named[4]: 6.0, named[5]: 7.0}
    assert seconds(mode="run") == {named[1]: 2.0, named[2]: 3.0, named[5]: 7.0}
    assert seconds(gfx="cpu", mode="run") == {named[1]: 2.0, named[2]: 3.0}
    found = store.expected([*units, on_card], gfx="cpu")
    assert found[on_card.key] == Expected(7.0, 1 << 40, 5)
    assert planned(5).key not in found


def test_threads_share_a_store(store):
    run = store.begin(FACTS)

    def record(first):
        for n in range(first, first + 20):
            store.record(run, result(n))
            store.latest(planned(n).id)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(record, range(0, 80, 20)))
    assert list(store.results(run)) == [result(n) for n in range(80)]


def test_a_forked_process_is_told_to_open_its_own_and_harms_nobody(store, url):
    run = store.begin(FACTS)

    def use_what_is_the_parent_s():
        with pytest.raises(StoreError, match=r"opened by process .* open it again"):
            store.record(run, result(1))
        store.close()
        with Store.open(url) as own:
            own.record(run, result(2))

    assert in_child(use_what_is_the_parent_s) == 0
    store.record(run, result(3))
    assert list(store.results(run)) == [result(2), result(3)]


def test_the_default_store_is_a_file_in_the_folder_s_own(tmp_path):
    folder = tmp_path / "100% #1? ü"
    with Store.open(default_url(folder)) as store:
        store.begin(FACTS)
    assert (folder / ".optest" / "results.sqlite").is_file()
    assert (folder / ".optest" / ".gitignore").read_text() == "*\n"
