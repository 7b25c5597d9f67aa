"""The benchmark that counts, and the words about it at the end of a run."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest

from optest.testing import tasks

if TYPE_CHECKING:
    from collections.abc import Iterable

_WITHOUT = "optest_tasks_without_benchmark"


class Tally:
    """What the reports said of benchmarks, shown at the end."""

    def __init__(self) -> None:
        self.counted: dict[str, list[float]] = {}
        self.others: dict[str, list[float]] = {}
        self.without: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the runtimes of each benchmark that passed."""
        task = getattr(report, "optest_task", {})
        if task.get("benchmark") and report.when == "call" and report.passed and task["ms"]:
            (self.counted if task["counted"] else self.others)[report.nodeid] = task["ms"]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - xdist's
        """A worker of xdist has ended: it knows what was collected."""
        self.without |= set(getattr(node, "workeroutput", {}).get(_WITHOUT, ()))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the benchmark that counts, those that do not, and tasks that have none."""
        lines = [*self._lines(bool(terminalreporter.config.getoption("--ref", False)))]
        if lines:
            terminalreporter.write_sep("=", "kernel benchmarks")
            for line in lines:
                terminalreporter.write_line(line)

    def _lines(self, reference: bool) -> Iterable[str]:
        whose = " (reference)" if reference else ""
        for nodeid, ms in self.counted.items():
            yield f"{nodeid}{whose}: {_words(ms)}"
        for nodeid, ms in self.others.items():
            yield f"not counted: {nodeid}{whose}: {_words(ms)}; a file's first benchmark counts"
        for file in sorted(self.without):
            yield (
                f"warning: {file}: no test is marked pytest.mark.{tasks.MARK}: a task has exactly "
                "one benchmark"
            )


def _words(ms: list[float]) -> str:
    return (
        f"median {statistics.median(ms):.4g} ms, mean {statistics.fmean(ms):.4g} ms, "
        f"{len(ms)} trial{'s' if len(ms) > 1 else ''}"
    )


def pytest_configure(config: pytest.Config) -> None:
    """One tally where the reports are shown."""
    config.pluginmanager.register(Tally(), "optest-tally")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The first benchmark of each file counts, in all its parameters; before -m and -k choose."""
    first: dict[str, str] = {}
    files: dict[str, None] = {}
    for item in items:
        task = tasks.task_of(item)
        if not task.ours:
            continue
        file, _, _ = item.nodeid.partition("::")
        files[file] = None
        if task.benchmark:
            function = item.nodeid.partition("[")[0]
            task.counted = first.setdefault(file, function) == function
    # Where single tests were asked for, what else the file has is not known.
    without = set() if any("::" in str(arg) for arg in config.args) else files.keys() - first.keys()
    if hasattr(config, "workeroutput"):
        config.workeroutput[_WITHOUT] = sorted(without)
        return
    tally = config.pluginmanager.get_plugin("optest-tally")
    if tally is not None:
        tally.without |= without
