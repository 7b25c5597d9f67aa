"""A pytest plugin that ``optest speedup`` loads: it notes what is tested, compared and timed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from optest.testing.fixtures import store_of
from optest.testing.tasks import task_of
from optest.testing.witness import Notebook, Outcome, measures, watch

MARK = "benchmark_shape"
_LONGEST = 500

_NOTEBOOK: pytest.StashKey[Notebook] = pytest.StashKey()
_PUT_BACK: pytest.StashKey[Callable[[], None]] = pytest.StashKey()
_WORST: pytest.StashKey[tuple[str, str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the notes go."""
    parser.addoption("--notes-out", metavar="FILE", help="for optest speedup", required=True)


def pytest_configure(config: pytest.Config) -> None:
    """Watch comparisons from here on: before any task is imported."""
    notebook = Notebook(Path(config.getoption("--notes-out")))
    config.stash[_NOTEBOOK] = notebook
    config.stash[_PUT_BACK] = watch(notebook)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Note that the run came to its end."""
    session.config.stash[_NOTEBOOK].finished()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Put the plain comparisons back."""
    if _PUT_BACK in config.stash:
        config.stash[_PUT_BACK]()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Tell the notebook which test runs, and let it see the call that is timed."""
    notebook = pyfuncitem.config.stash[_NOTEBOOK]
    notebook.begin(pyfuncitem.nodeid, pyfuncitem.obj)
    for name in measures(pyfuncitem.funcargs):
        pyfuncitem.funcargs[name] = notebook.measuring(pyfuncitem.funcargs[name])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what came of the test, once its last phase is over."""
    report = yield
    if not report.passed and _WORST not in item.stash:
        item.stash[_WORST] = (report.outcome, _reason(report))
    if report.when == "teardown":
        outcome, reason = item.stash.get(_WORST, ("passed", ""))
        marks = list(item.iter_markers(MARK))
        timings = store_of(item.config).of(item.nodeid).timings
        held = [mark.kwargs.get("holds", ()) for mark in marks]
        item.config.stash[_NOTEBOOK].tested(
            Outcome(
                item.nodeid,
                outcome,
                reason,
                counted=task_of(item).counted,
                contended=any(timing.contended for timing in timings),
                stands=bool(marks),
                holds=tuple(size for sizes in held for size in _sizes(sizes)),
            )
        )
    return report


def _sizes(holds: object) -> tuple[int, ...]:
    return (holds,) if isinstance(holds, int) else tuple(holds)  # type: ignore[arg-type]


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    words = crash.message if crash is not None else str(report.longrepr or "")
    if isinstance(report.longrepr, tuple):  # of a skip: file, line, words
        words = report.longrepr[2].removeprefix("Skipped: ")
    return words.strip().partition("\n")[0][:_LONGEST]
