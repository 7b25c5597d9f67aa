"""A PostgreSQL server of the tests' own: started on a free port, stopped when they end.

``postgres_url`` gives a test an empty database, ``postgres_server`` the server, for tests that
restart it.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from typing_extensions import Self

HOW_TO_INSTALL = (
    "PostgreSQL's server is not installed (no initdb on PATH or in /usr/lib/postgresql/*/bin):"
    " apt-get install postgresql, or run .ci/run, which does"
)
NO_DRIVER = "psycopg is not installed: scripts/setup test"
_READY_S = 30.0
_STOP = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
# The machine does not lose power in a test, so nothing needs to reach the disk. What was committed
# must still outlive the server's own death, so synchronous_commit stays on.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "50",
    "logging_collector": "off",
}
_USER = "optest"


def programs() -> Path | None:
    """The folder of initdb and postgres: the newest version there is, or None."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: int(path.parts[-3])).parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


class Server:
    """One server with its data in a temporary folder; a context manager that leaves nothing."""

    def __init__(self) -> None:
        bin_folder = programs()
        if bin_folder is None:
            raise RuntimeError(HOW_TO_INSTALL)
        self._bin = bin_folder
        self._as = _unprivileged()
        self._folder = Path(tempfile.mkdtemp(prefix="optest-postgres-"))
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()
        self.port = _free_port()

    def __enter__(self) -> Self:
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str = "postgres") -> str:
        """What SQLAlchemy connects to."""
        return f"postgresql+psycopg://{_USER}@127.0.0.1:{self.port}/{database}"

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, if it does not run, and wait until it answers."""
        if self.running:
            return
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        command += ["-h", "127.0.0.1", "-k", ""]  # no socket file
        for name, value in _SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        if setpriv := shutil.which("setpriv"):
            # It must not outlive tests that are killed.
            command = [setpriv, "--pdeathsig", "INT", *command]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **self._as
            )
        self._wait_until_it_answers()

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``smart``, ``fast``, or ``immediate``, which is a crash to what is connected."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(_STOP[mode])
        try:
            self._process.wait(_READY_S)
        finally:
            if self.running:
                self._process.kill()
                self._process.wait()
            self._process = None

    def restart(self, mode: str = "fast") -> None:
        """Stop it in ``mode`` and start it on the same port with the same data."""
        self.stop(mode)
        self.start()

    def create_database(self) -> str:
        """Make an empty database and return its name."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        """Take it away, whoever is still connected."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        """Run one statement outside any transaction."""
        import psycopg

        with psycopg.connect(self._conninfo(), autocommit=True) as connection:
            connection.execute(statement)

    def _conninfo(self) -> str:
        return f"host=127.0.0.1 port={self.port} user={_USER} dbname=postgres connect_timeout=5"

    def _initialise(self) -> None:
        if uid := self._as.get("user"):
            os.chown(self._folder, uid, self._as["group"])
        command = [str(self._bin / "initdb"), "-D", str(self._data), "-U", _USER, "-A", "trust"]
        command += ["-E", "UTF8", "--locale=C", "--no-sync"]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", **self._as)
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr or done.stdout}")

    def _wait_until_it_answers(self) -> None:
        import psycopg

        give_up = time.monotonic() + _READY_S
        while True:
            try:
                psycopg.connect(self._conninfo()).close()
            except psycopg.OperationalError as error:
                if not self.running or time.monotonic() > give_up:
                    words = self._log.read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"PostgreSQL does not answer ({error}):\n{words}") from None
                time.sleep(0.02)
            else:
                return


def _unprivileged() -> dict[str, object]:
    """How subprocess starts it as somebody: the server refuses to run as root."""
    if os.geteuid():
        return {}
    for name in ("postgres", "nobody"):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    raise RuntimeError("PostgreSQL refuses to run as root, and there is no user postgres or nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def require() -> None:
    """Leave the test out where there is no server, saying how to install it; fail in CI."""
    why = ""
    if programs() is None:
        why = HOW_TO_INSTALL
    elif importlib.util.find_spec("psycopg") is None:
        why = NO_DRIVER
    if why and os.environ.get("CI"):
        pytest.fail(why, pytrace=False)
    if why:
        pytest.skip(why)


@pytest.fixture(scope="session")
def postgres_server():
    """The server of this test session."""
    require()
    with Server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of an empty database that is this test's own."""
    postgres_server.start()  # a test before may have left it stopped
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.start()
    postgres_server.drop_database(name)
