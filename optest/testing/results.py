"""The files of ``--performance-out`` and ``--correctness-out``: whole after every test."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from optest.log import logger
from optest.testing import tasks


class ResultFile:
    """A JSON object on disk that is replaced as a whole, so that a reader never meets half of it.

    ``failed`` is True once it could not be written.
    """

    def __init__(self, option: str, path: Path) -> None:
        self._option, self._path = option, path
        self.found: dict[str, Any] = {}
        self.failed = False
        if self._path.exists() and not self._path.is_file():
            raise pytest.UsageError(self._complaint("it is no regular file"))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._replace()  # what an earlier run left there is not this run's
        except OSError as error:
            raise pytest.UsageError(self._complaint(error.strerror)) from None

    def put(self, nodeid: str, value: object) -> None:
        """Set what is known of a test."""
        self.found[nodeid] = value
        self.write()

    def drop(self, nodeid: str) -> None:
        """Nothing is known of a test: it was skipped."""
        if nodeid in self.found:
            del self.found[nodeid]
            self.write()

    def write(self) -> None:
        """Replace the file; a full disk stops no run, it fails it at the end."""
        try:
            self._replace()
        except OSError as error:
            if not self.failed:
                logger.error("%s", self._complaint(error.strerror))
            self.failed = True

    def _replace(self) -> None:
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in self.found.items()]
        beside.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        beside.replace(self._path)

    def _complaint(self, why: str | None) -> str:
        return f"{self._option}={str(self._path)!r}: expected a file that can be written ({why})"


class ResultFiles:
    """Takes what each report says into the two files; only the process that shows reports has one.

    A test that has begun and not ended stands as failed, and so does one in which Python crashes.
    """

    def __init__(self, performance: ResultFile | None, correctness: ResultFile | None) -> None:
        self._performance, self._correctness = performance, correctness
        self._benchmarks: dict[str, bool] = {}
        self._knows_benchmarks = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Know the benchmarks; with xdist only the workers do, and their reports tell."""
        self._knows_benchmarks = True
        for item in session.items:
            task = tasks.task_of(item)
            if task.benchmark:
                self._benchmarks[item.nodeid] = task.ours

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Until a test has ended it has not passed."""
        if not self._knows_benchmarks:
            return
        if self._benchmarks.get(nodeid, False) and self._performance is not None:
            self._performance.put(nodeid, [])
        elif nodeid not in self._benchmarks and self._correctness is not None:
            self._correctness.put(nodeid, False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write what a phase of a test came to."""
        task = getattr(report, "optest_task", {})
        benchmark = task.get("benchmark", report.nodeid in self._benchmarks)
        if self._performance is not None and (benchmark or task.get("ms")):
            self._take_runtimes(self._performance, report, task.get("ms", []))
        if self._correctness is not None and not benchmark:
            _take_outcome(self._correctness, report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A run whose results are not all on disk has not succeeded."""
        files = (self._performance, self._correctness)
        if any(file is not None and file.failed for file in files):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @staticmethod
    def _take_runtimes(file: ResultFile, report: pytest.TestReport, ms: list[float]) -> None:
        """The runtimes of a test that passed; none of one that failed, as far as it came."""
        if report.failed:
            file.put(report.nodeid, [])
        elif report.when == "call" and report.passed:
            file.put(report.nodeid, ms)
        elif report.skipped:
            file.drop(report.nodeid)


def _take_outcome(file: ResultFile, report: pytest.TestReport) -> None:
    """True where the test passed; a failed setup or teardown fails it; skips are left out."""
    if report.failed:
        file.put(report.nodeid, False)
    elif report.skipped:
        file.drop(report.nodeid)
    elif report.when == "call":
        file.put(report.nodeid, True)


def pytest_configure(config: pytest.Config) -> None:
    """Open the files that were asked for, in the process that shows the reports."""
    if hasattr(config, "workerinput"):
        return
    performance, correctness = (
        _path(config, name) for name in ("--performance-out", "--correctness-out")
    )
    if performance is None and correctness is None:
        return
    if performance is not None and performance == correctness:
        raise pytest.UsageError(
            f"--performance-out and --correctness-out are both {str(performance)!r}: expected two "
            "files"
        )
    files = ResultFiles(
        None if performance is None else ResultFile("--performance-out", performance),
        None if correctness is None else ResultFile("--correctness-out", correctness),
    )
    config.pluginmanager.register(files, "optest-result-files")


def _path(config: pytest.Config, option: str) -> Path | None:
    value = config.getoption(option, None)
    if value is None:
        return None
    if not value:
        raise pytest.UsageError(f"{option}='': expected a file that can be written")
    return Path(value).resolve()
