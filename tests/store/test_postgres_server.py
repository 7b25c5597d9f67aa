"""The server that the tests of the store start."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import postgres_server as servers
import psutil
import pytest


def connect(url):
    import psycopg  # the fixtures leave the tests out where it is missing

    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


@pytest.mark.parametrize(
    ("environ", "outcome"), [({}, "Skipped"), ({"CI": "true"}, "Failed")], ids=["people", "CI"]
)
def test_a_missing_server_is_said_and_fails_in_ci(monkeypatch, environ, outcome):
    monkeypatch.delenv("CI", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(servers, "programs", lambda: None)
    with pytest.raises(BaseException, match="apt-get install postgresql") as caught:
        servers.require()
    assert type(caught.value).__name__ == outcome


def test_what_was_committed_outlives_the_servers_death(postgres_server, postgres_url):
    with connect(postgres_url) as connection:
        connection.execute("CREATE TABLE kept (x int)")
        connection.execute("INSERT INTO kept VALUES (7)")
        postgres_server.restart("immediate")
        with pytest.raises(Exception, match=r"terminating connection|closed") as caught:
            connection.execute("SELECT 1")
        assert type(caught.value).__name__ in {"OperationalError", "AdminShutdown"}
    with connect(postgres_url) as connection:
        assert connection.execute("SELECT x FROM kept").fetchall() == [(7,)]


def test_each_test_has_an_empty_database(postgres_url):
    with connect(postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert tables.fetchone() == (0,)


def test_nothing_of_it_is_left(postgres_server):
    # The fixture stands for "it can be started here at all".
    with servers.Server() as server:
        folder, process = server._folder, server._process
        assert folder.is_dir()
    assert process.poll() is not None
    assert not folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's word about a dead parent")
def test_it_does_not_outlive_tests_that_are_killed(postgres_server):
    program = (
        "import postgres_server, sys, time\n"
        "with postgres_server.Server() as server:\n"
        "    print(server._process.pid, server._folder, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(servers.__file__).parent,
    ) as tests:
        pid, folder = tests.stdout.readline().split()
        server = psutil.Process(int(pid))
        os.kill(tests.pid, signal.SIGKILL)
    psutil.wait_procs([server], timeout=20)
    assert not server.is_running()
    shutil.rmtree(folder)
