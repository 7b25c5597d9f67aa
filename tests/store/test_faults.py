"""What breaks in the middle: killed writers, two processes at once, servers that go away."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from store_examples import FACTS, in_child, planned, result, until

from optest.errors import StoreError
from optest.store import Store

TESTS = Path(__file__).parents[1]
# Opens an empty database the moment it is told to, beside others that do the same.
WRITER = """
import sys
sys.path.insert(0, {tests!r})
from store_examples import FACTS, planned, result
from optest.store import Store
print("ready", flush=True)
sys.stdin.readline()
with Store.open({url!r}) as store:
    run = store.begin(FACTS)
    store.plan(run, [planned(n) for n in range({count})])
    for n in range({count}):
        store.record(run, result(n))
    store.end(run, "complete")
print(run)
"""


def test_processes_make_and_write_one_database_at_once(url):
    code = WRITER.format(tests=str(TESTS), url=url, count=40)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    said = [writer.communicate(timeout=60) for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4, said
    runs = [out.strip() for out, _ in said]
    with Store.open(url) as store:
        assert {run.id for run in store.runs()} == {*runs}
        for run in runs:
            assert list(store.results(run)) == [result(n) for n in range(40)]
            assert store.find(run).state == "complete"
            assert store.missing(run) == []


def killed_after(url, statements):
    """A child's work: record 1 and then 2, killed by itself within the second."""

    def work():
        store = Store.open(url)
        run = store.begin(FACTS)
        store.plan(run, [planned(1), planned(2)])
        store.record(run, result(1))
        left = iter(range(statements))

        @event.listens_for(sa.Engine, "after_cursor_execute")
        def count(*_):
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        store.record(run, result(2))

    return work


def test_a_writer_that_is_killed_leaves_whole_results_only(url):
    Store.open(url).close()
    seen = []
    for statements in range(20):
        status = in_child(killed_after(url, statements))
        with Store.open(url) as store:
            (run,) = store.runs(1)
            seen.append(len(list(store.results(run.id))))
            assert list(store.results(run.id)) == [result(1), result(2)][: seen[-1]]
            assert store.missing(run.id) == [planned(1), planned(2)][seen[-1] :]
            assert run.state == "running"
        if status == 0:
            break
        assert status == -signal.SIGKILL
    # The case, its measures, its verdicts: each was the last of one child.
    assert seen[-1] == 2
    assert seen[:-1] == [1] * (len(seen) - 1)
    assert len(seen) >= 4


def test_a_reader_sees_results_whole_while_they_are_replaced(url):
    with Store.open(url) as store:
        run = store.begin(FACTS)
        short = result(1, row={"us": 1.0}, checks=[])
        store.record(run, short)
        stop = threading.Event()

        def replace_them():
            with Store.open(url) as other:
                while not stop.is_set():
                    other.record(run, result(1))
                    other.record(run, short)

        writer = threading.Thread(target=replace_them)
        writer.start()
        try:
            seen = [next(iter(store.results(run))) for _ in range(300)]
        finally:
            stop.set()
            writer.join()
    assert all(each in (short, result(1)) for each in seen)
    assert {len(each.row) for each in seen} == {1, 7}


@contextlib.contextmanager
def unsure(store, monkeypatch):
    """The next commit goes through, and its answer does not."""
    real = store._database._transaction
    lost = iter([True])

    @contextlib.contextmanager
    def transaction(engine):
        with real(engine) as connection:
            yield connection
        if next(lost, False):
            raise OperationalError("COMMIT", {}, Exception("server closed the connection"))

    with monkeypatch.context() as patch:
        patch.setattr(store._database, "_transaction", transaction)
        yield
    assert next(lost, None) is None


def test_a_commit_whose_answer_was_lost_is_not_made_twice(store, monkeypatch):
    with unsure(store, monkeypatch):
        run = store.begin(FACTS)
    assert [each.id for each in store.runs()] == [run]
    with unsure(store, monkeypatch):
        store.plan(run, [planned(1), planned(2)])
    assert store.planned(run) == [planned(1), planned(2)]
    for n in (1, 3):
        with unsure(store, monkeypatch):  # 3 comes from a whole script, unplanned
            store.record(run, result(n, "failed"))
    assert list(store.results(run)) == [result(1, "failed"), result(3, "failed")]
    with unsure(store, monkeypatch):
        store.end(run, "complete")
    assert store.find(run).totals == {"failed": 2, "missing": 1}


def test_two_runs_of_one_moment_have_two_ids(sqlite, monkeypatch):
    tokens = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("secrets.token_hex", lambda n: next(tokens))
    monkeypatch.setattr("time.time", iter([1.0, 1.5]).__next__)
    assert [sqlite.begin(FACTS) for _ in range(2)] == [
        "19700101-000001-aaaa",
        "19700101-000001-bbbb",
    ]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_is_restarted_costs_nothing_but_time(
    postgres_url, postgres_server, mode, caplog
):
    with Store.open(postgres_url) as store:
        run = store.begin(FACTS)
        store.plan(run, [planned(n) for n in range(300)])
        recorded = []

        def record():
            for n in range(300):
                store.record(run, result(n))
                recorded.append(n)

        writer = threading.Thread(target=record)
        writer.start()
        try:
            until(lambda: len(recorded) > 50)
            postgres_server.stop(mode)
            until(lambda: "not to be had" in caplog.text)
            assert len(recorded) < 300
        finally:
            postgres_server.start()
            writer.join(60)
        assert list(store.results(run)) == [result(n) for n in range(300)]
    assert caplog.text.count("not to be had") == caplog.text.count("to be had again") == 1


def test_a_server_that_stays_away_is_an_error_in_the_end(postgres_url, postgres_server):
    with Store.open(postgres_url) as store:
        store._database.patience_s = 1.0
        run = store.begin(FACTS)
        postgres_server.stop("fast")
        try:
            with pytest.raises(StoreError, match="no server listens there"):
                store.record(run, result(1))
        finally:
            postgres_server.start()
        store.record(run, result(1))
        assert list(store.results(run)) == [result(1)]


def test_a_file_that_another_process_holds_locked_is_waited_for(sqlite, monkeypatch, caplog):
    monkeypatch.setattr("optest.store.engines._BUSY_S", 0.05)
    path = sqlite._database.place.path
    with Store.open(f"sqlite:///{path}") as store:
        run = store.begin(FACTS)
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        writer = threading.Thread(target=store.record, args=(run, result(1)))
        writer.start()
        until(lambda: "database is locked" in caplog.text)
        assert list(sqlite.results(run)) == []  # readers need not wait
        other.execute("ROLLBACK")
        writer.join(30)
        assert list(sqlite.results(run)) == [result(1)]
        other.execute("BEGIN EXCLUSIVE")
        store._database.patience_s = 0.2
        with pytest.raises(StoreError, match="another process held it locked all the while"):
            store.record(run, result(2))
        other.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_removed_while_it_is_written_is_said_and_takes_no_more(
    sqlite, tmp_path, replaced
):
    run = sqlite.begin(FACTS)
    sqlite.plan(run, [planned(0), planned(1)])
    sqlite.record(run, result(0))
    (tmp_path / "results.sqlite").unlink()
    if replaced:
        Store.open(f"sqlite:///{tmp_path / 'results.sqlite'}").close()
    with pytest.raises(StoreError, match="removed or replaced"):
        sqlite.record(run, result(1))
