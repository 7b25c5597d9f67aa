"""What cannot be opened or written: each one clear error that shows no password."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import pytest
from store_examples import FACTS, in_child, planned, result

from optest.errors import StoreError
from optest.store import Store

FORMS = r"expected sqlite:///PATH .* or postgresql\+psycopg://USER@HOST/DATABASE"


@pytest.mark.parametrize(
    "at",
    [
        "",
        "results.sqlite",
        "/tmp/results.sqlite",
        "sqlite:results.sqlite",
        "sqlite://results.sqlite",
        "mysql://user@host/database",
        "postgresql+psycopg2://user@host/database",
        "postgresql+psycopg://host:port/database",
        "postgresql+psycopg://host",
        "file:///tmp/results.sqlite",
    ],
)
def test_a_url_of_no_known_form_is_told_the_forms(at):
    with pytest.raises(StoreError, match=FORMS):
        Store.open(at)


@pytest.mark.parametrize("at", ["sqlite:///", "sqlite:///:memory:", "sqlite:///a\x00b"])
def test_sqlite_needs_the_path_of_a_file(at):
    with pytest.raises(StoreError, match="expected the path of a file, as sqlite:///results"):
        Store.open(at)


@pytest.mark.parametrize(
    "at",
    [
        "mysql://user:{}@host/database",
        "postgresql+psycopg://user:{}@host:port/database",
        "postgresql+psycopg://user:{}@127.0.0.1:1/database",
        "postgresql+psycopg://user@127.0.0.1:1/database?password={}",
        "postgresql://user:a%2F{}@127.0.0.1:1/database",
        "postgresql+psycopg://user:{}@127.0.0.1:1",
        "postgresql+psycopg://user:x@y/{}@127.0.0.1:port/z",
    ],
)
def test_no_error_shows_a_password(at, caplog):
    with pytest.raises(StoreError) as raised:
        Store.open(at.format("s3cret"))
    assert "s3cret" not in str(raised.value)
    assert "s3cret" not in caplog.text
    shown = raised.value.__context__ is not None and not raised.value.__suppress_context__
    assert not shown


def test_a_server_that_is_not_there_is_said_at_once_and_clearly():
    started = time.monotonic()
    with pytest.raises(StoreError, match=r"no server listens there: start it.*refused"):
        Store.open("postgresql+psycopg://user@127.0.0.1:1/database")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("database", "user", "words"),
    [
        ("nothing", "optest", "there is no such database: make it with createdb"),
        ("postgres", "nobody", "the server does not know the user"),
    ],
)
def test_a_database_or_user_that_the_server_does_not_know(postgres_server, database, user, words):
    at = postgres_server.url(database).replace("//optest@", f"//{user}@")
    with pytest.raises(StoreError, match=words):
        Store.open(at)


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"needs psycopg: pip install 'optest\[postgres\]'"):
        Store.open("postgresql+psycopg://user@127.0.0.1:1/database")


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"its folder cannot be made"):
        Store.open(f"sqlite:///{tmp_path}/file/results.sqlite")


def test_a_folder_in_the_file_s_place(tmp_path):
    with pytest.raises(StoreError, match="this is a folder"):
        Store.open(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("text", ["no database at all" * 100, "SQLite format 3\x00" + "x" * 5000])
def test_a_file_that_is_no_database_is_left_alone(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"notes.txt: the file is (no SQLite database|damaged)"):
        Store.open(f"sqlite:///{path}")
    assert path.read_text() == text


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "theirs.sqlite"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE bookmarks (url)")
    theirs.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"holds tables of something else \(bookmarks\)"):
        Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_tables_of_the_same_name_on_a_server_are_left_alone(postgres_url):
    import psycopg

    theirs = postgres_url.replace("+psycopg", "")
    with psycopg.connect(theirs) as connection:
        connection.execute("CREATE TABLE runs (name text)")
        connection.execute("CREATE TABLE others (name text)")
    with pytest.raises(StoreError, match=r"holds tables of something else \(runs\)"):
        Store.open(postgres_url)
    with psycopg.connect(theirs) as connection:
        connection.execute("DROP TABLE runs")
    Store.open(postgres_url).close()  # what else is there is no matter


def test_a_store_that_is_only_read_is_not_made(tmp_path):
    with pytest.raises(StoreError, match="there is no such store: optest run"):
        Store.open(f"sqlite:///{tmp_path}/a/results.sqlite", make=False)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def readable(tmp_path):
    """A folder that an ordinary user may enter: pytest's own are closed to all but their owner."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("there", [True, False])
def test_a_file_or_folder_that_may_not_be_written(readable, there):
    at = f"sqlite:///{readable / 'results.sqlite'}"
    if there:
        with Store.open(at) as store:
            run = store.begin(FACTS)
            store.plan(run, [planned(1)])
    readable.chmod(0o555)
    for path in readable.iterdir():
        path.chmod(0o444)

    def as_an_ordinary_user():
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        with pytest.raises(StoreError, match=r"may not be written|neither opened nor made"):
            Store.open(at).begin(FACTS)

    assert in_child(as_an_ordinary_user) == 0


def test_a_full_disk_loses_what_did_not_fit_and_nothing_else(sqlite):
    run = sqlite.begin(FACTS)
    sqlite.plan(run, [planned(n) for n in range(1000)])
    with sqlite._database._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 8}")
    kept = 0
    error = ""
    while not error:
        try:
            sqlite.record(run, result(kept))
            kept += 1
        except StoreError as refused:
            error = str(refused)
    assert "the disk is full: make room, or give another --store" in error
    assert kept > 0
    assert list(sqlite.results(run)) == [result(n) for n in range(kept)]
    assert len(sqlite.missing(run)) == 1000 - kept


def test_a_server_with_another_encoding_is_refused(postgres_server):
    postgres_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    try:
        with pytest.raises(StoreError, match="its encoding is LATIN1: expected UTF8"):
            Store.open(postgres_server.url("latin"))
    finally:
        postgres_server.drop_database("latin")
