"""Which tests are a kernel task's, and what holds while one of them runs."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from optest.errors import CheckFailedError, OptestError
from optest.log import logger
from optest.testing import fixtures, inputs, profiler
from optest.testing.profiler import LABEL

if TYPE_CHECKING:
    from collections.abc import Generator

    from optest.cases.session import Session

MARK = "performance"
_LONGEST = 2_000

_NOTHING_RECORDED = """\
{nodeid}: marked performance, and it recorded no runtime in profile_store. Take the fixture \
measure_runtime_torch (or measure_runtime) and call it in the test:
    measure_runtime_torch(kernel, device, args=data)"""


@dataclass
class Task:
    """One test of a task: what is known of it, and what came of it.

    Attributes:
        ours: whether the class or a fixture says that it is a task's; the mark alone does not.
        benchmark: whether it is marked ``performance``.
        counted: whether it is the benchmark that its file is judged by.
        reports: what pytest made of its phases.
    """

    ours: bool
    benchmark: bool
    counted: bool = False
    reports: list[pytest.TestReport] = field(default_factory=list)


TASK: pytest.StashKey[Task] = pytest.StashKey()


def task_of(item: pytest.Item) -> Task:
    """What is known of a test; looked up once."""
    if TASK not in item.stash:
        ours = isinstance(item, pytest.Function) and _is_ours(item)
        item.stash[TASK] = Task(ours, item.get_closest_marker(MARK) is not None)
    return item.stash[TASK]


def _is_ours(item: pytest.Function) -> bool:
    if getattr(item.obj, "__optest_benchmark__", False):
        return False
    if not fixtures.NAMES.isdisjoint(item.fixturenames):
        return True
    kinds = getattr(item.cls, "__mro__", ())
    return any(
        kind.__name__ == "TestBase" and kind.__module__.startswith("optest.testing")
        for kind in kinds
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Name the running test to profilers, and tell the session's events of it."""
    task = task_of(item)
    if not task.ours:
        return (yield)
    task.reports.clear()
    fixtures.store_of(item.config).begin(item.nodeid)
    before = os.environ.get(LABEL)
    os.environ[LABEL] = item.nodeid
    began = time.monotonic()
    _emit_started(item)
    try:
        return (yield)
    finally:
        _emit_finished(item, task, time.monotonic() - began)
        if before is None:
            os.environ.pop(LABEL, None)
        else:
            os.environ[LABEL] = before


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Fail in one line on what a task got wrong, and where a benchmark recorded nothing."""
    task = task_of(pyfuncitem)
    if not task.ours:
        return (yield)
    store = fixtures.store_of(pyfuncitem.config)
    watched = not task.benchmark and pyfuncitem.get_closest_marker(inputs.MARK) is None
    given = inputs.Given(pyfuncitem.funcargs if watched else {})
    fault = ""
    try:
        result = yield
    except CheckFailedError:
        raise
    except OptestError as error:
        fault = str(error)
    if fault:  # raised here, it does not carry the error that it words
        pytest.fail(fault, pytrace=False)
    _look_at_inputs(pyfuncitem.nodeid, given)
    if store.refused:
        pytest.fail(f"a measurement was refused: {store.refused}", pytrace=False)
    if task.benchmark and not store.of(pyfuncitem.nodeid):
        pytest.fail(_NOTHING_RECORDED.format(nodeid=pyfuncitem.nodeid), pytrace=False)
    return result


def _look_at_inputs(nodeid: str, given: inputs.Given) -> None:
    """A reference that is called after the kernel judges it on what the kernel has left there."""
    zeroed = given.zeroed()
    if zeroed:
        pytest.fail(
            f"{nodeid}: {', '.join(zeroed)} held data when the test began and one value throughout "
            "when it ended: a reference called on that agrees with anything. Give the kernel "
            f"clones, or mark the test pytest.mark.{inputs.MARK} where the kernel is to do this",
            pytrace=False,
        )
    changed = given.changed()
    if changed:
        logger.warning(
            "%s changed %s: call the reference before the kernel, or give the kernel clones; "
            "pytest.mark.%s says that it is meant to",
            nodeid, ", ".join(changed), inputs.MARK,
        )  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Send what was measured along with the report, from a worker to where it is written."""
    report = yield
    task = task_of(item)
    if not (task.ours or task.benchmark):
        return report
    task.reports.append(report)
    report.optest_task = {
        "benchmark": task.benchmark,
        "counted": task.counted,
        "ms": list(fixtures.store_of(item.config).of(item.nodeid)) if task.ours else [],
    }
    return report


def pytest_sessionfinish() -> None:
    """Let a profiler write what it has seen."""
    profiler.end()


def _session() -> Session | None:
    """The session, where it keeps events; asking must not import torch."""
    sessions = sys.modules.get("optest.cases.session")
    session: Session | None = sessions.current() if sessions is not None else None
    return session if session is not None and session.events is not None else None


def _emit_started(item: pytest.Item) -> None:
    session = _session()
    if session is not None:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        session.emit(
            "started",
            id=item.nodeid,
            file=item.path.name,
            function=getattr(item, "originalname", item.name),
            arguments=parameters,
        )


def _emit_finished(item: pytest.Item, task: Task, seconds: float) -> None:
    session = _session()
    if session is None:
        return
    status, reason = _outcome(task.reports)
    trials = fixtures.store_of(item.config).of(item.nodeid)
    session.emit(
        "finished",
        id=item.nodeid,
        status=status,
        seconds=seconds,
        reason=reason,
        row={"us": trials.timings[0]} if trials.timings else {},
        checks=[],
        reference=bool(item.config.getoption("--ref", False)),
        benchmark=task.benchmark,
        counted=task.counted,
        runtimes_ms=list(trials),
    )


def _outcome(reports: list[pytest.TestReport]) -> tuple[str, str]:
    """``passed``, ``failed``, ``error`` or ``skipped``, and the first line of why."""
    for report in reports:
        if report.failed:
            return "failed" if report.when == "call" else "error", _reason(report)
    for report in reports:
        if report.skipped:
            return "skipped", _reason(report)
    # A test that was stopped half way, by an interrupt or by -x elsewhere, has no call.
    done = any(report.when == "call" for report in reports)
    return ("passed", "") if done else ("error", "it did not run to its end")


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    words = crash.message if crash is not None else str(report.longrepr or "")
    if isinstance(report.longrepr, tuple):  # of a skip: file, line, words
        words = report.longrepr[2]
    return words.strip().partition("\n")[0][:_LONGEST]
