"""How much faster a task's kernel is than its reference, where it may be said at all.

Stages, each a process of its own: build, correctness, the benchmark; then the same of the
reference. A speedup is stated only where every correctness test passed and one of them checked the
shape that is timed.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optest import stats
from optest.errors import OptestError, UsageError
from optest.log import logger
from optest.testing import benchmark_shape, child, names, witness
from optest.testing.witness import Outcome, Seen

LIMIT_S = 600.0
_OURS = ("-m", "--ref", "--performance-out", "--correctness-out", "--notes-out")
_CORRECTNESS = ("-m", f"not {names.PERFORMANCE}")
_BENCHMARK = ("-m", names.PERFORMANCE)
_NO_TESTS, _PYTEST_USAGE = 5, 4
_LINES_SHOWN = 80


class NoSpeedupError(OptestError, RuntimeError):
    """A task whose speedup may not be stated: something failed, or was never checked."""


@dataclass(frozen=True)
class Row:
    """One benchmark: runtimes of kernel and reference in milliseconds, whether it counts.

    ``contended`` says that others wanted the processor while one of the two was timed.
    """

    benchmark: str
    kernel_ms: tuple[float, ...]
    reference_ms: tuple[float, ...]
    counted: bool
    contended: bool = False

    @property
    def speedup(self) -> float:
        """How many times the kernel goes into the reference, by their medians."""
        return stats.median(self.reference_ms) / stats.median(self.kernel_ms)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the speedup lies with 95 % confidence: a bootstrap over the trials."""
        return stats.median_ratio_interval(self.reference_ms, self.kernel_ms)


@dataclass(frozen=True)
class Request:
    """What to judge.

    Attributes:
        task: the task's file.
        pytest_args: added to every pytest command.
        limit_s: seconds that each stage may take.
        build: whether to build what the task builds first.
    """

    task: Path
    pytest_args: tuple[str, ...] = ()
    limit_s: float = LIMIT_S
    build: bool = True


@dataclass(frozen=True)
class _Run:
    """What one pytest run left behind."""

    tests: Mapping[str, Outcome]
    seen: Mapping[str, Seen]
    correct: Mapping[str, bool]
    runtimes: Mapping[str, Sequence[float]]


def speedup(request: Request) -> list[Row]:
    """Run all stages; a row for each benchmark, those that count first.

    Raises:
        UsageError: there is no such file, it is no Python, a pytest argument that is set here, or
            one that pytest refuses.
        NoSpeedupError: a build or a test failed or took too long, there is no correctness test or
            no benchmark, or none checked the shape that is timed. The message says which.
    """
    _check(request)
    if request.build:
        _build(request)
    correctness = _pytest(request, "correctness", *_CORRECTNESS)
    _require_correct(correctness, "the kernel")
    kernel = _pytest(request, "benchmark", *_BENCHMARK)
    timed = _timed(kernel)
    for test in timed:
        if kernel.tests[test].counted:
            _require_checked(test, kernel, correctness)
    _require_correct(
        _pytest(request, "reference: correctness", "--ref", *_CORRECTNESS), "the reference itself"
    )
    reference = _pytest(request, "reference: benchmark", "--ref", *_BENCHMARK)
    return _rows(kernel, timed, reference, _timed(reference))


def overall(rows: Sequence[Row]) -> float:
    """Geometric mean of the speedups that count."""
    logs = [math.log(row.speedup) for row in rows if row.counted]
    return math.exp(stats.mean(logs))


def _check(request: Request) -> None:
    if request.task.suffix != ".py" or not request.task.is_file():
        problem = "no Python file" if request.task.exists() else "there is no such file"
        raise UsageError(f"{str(request.task)!r}: {problem}; expected a task such as task.py")
    names.parse(request.task)
    for word in request.pytest_args:
        name = word.partition("=")[0]
        if name in _OURS:
            raise UsageError(f"pytest argument {word!r}: optest speedup sets {name} itself")
    if not 0 < request.limit_s < math.inf:
        raise UsageError(f"timeout {request.limit_s!r}: expected a positive number of seconds")


def _build(request: Request) -> None:
    words = ["optest.testing.build_child", str(request.task)]
    ended = _stage(request, "build", words)
    if ended.code != 0:
        said = _last_lines(ended.said)
        raise NoSpeedupError(f"no speedup: the build failed ({ended.how}):\n{said}")


def _pytest(request: Request, stage: str, *options: str) -> _Run:
    with tempfile.TemporaryDirectory(prefix="optest-speedup-") as name:
        notes, correct, runtimes = (Path(name) / n for n in ("notes", "correct", "runtimes"))
        words = ["pytest", str(request.task), *options]
        words += ["-p", "optest.testing.witness_plugin", f"--notes-out={notes}"]
        words += [f"--correctness-out={correct}", f"--performance-out={runtimes}"]
        ended = _stage(request, stage, [*words, *request.pytest_args])
        noted = witness.read(notes)
        run = _Run(noted.tests, noted.seen, _read(correct), _read(runtimes))
    if ended.code == _PYTEST_USAGE:
        raise UsageError(f"pytest refused its arguments:\n{_last_lines(ended.said)}")
    if ended.code not in (0, _NO_TESTS) or not noted.finished:
        how = "the process ended in the middle" if ended.code == 0 else ended.how
        failed = [test for test in run.tests.values() if test.outcome == "failed"]
        named = "".join(f"\n  {test.id}: {test.reason}" for test in failed)
        said = _last_lines(ended.said)
        raise NoSpeedupError(f"{said}\n\nno speedup: {stage} failed ({how}){named}")
    return run


def _stage(request: Request, name: str, words: list[str]) -> child.Ended:
    """One child; it is said on standard error that it has begun, and how long it took."""
    logger.info("%s ...", name)
    began = time.perf_counter()
    # A task may import what it has built, and its neighbours, however pytest is configured.
    ended = child.run_module(words, limit_s=request.limit_s, folder=request.task.parent)
    logger.info("%s ... %.1f s", name, time.perf_counter() - began)
    return ended


def _read(path: Path) -> Any:  # noqa: ANN401 - as the option of pytest says that it writes
    return json.loads(path.read_text()) if path.is_file() else {}


def _require_correct(run: _Run, whose: str) -> None:
    """Every test passed, and one ran; pytest's own exit code has told of failures already."""
    wrong = [test for test, right in run.correct.items() if not right]
    if wrong:
        raise NoSpeedupError(f"no speedup: {whose} fails {', '.join(wrong)}")
    if not any(test.outcome == "passed" for test in run.tests.values()):
        skipped = "".join(f"\n  {t.id}: {t.outcome}: {t.reason}" for t in run.tests.values())
        raise NoSpeedupError(
            f"no speedup: no correctness test of {whose} ran: a task has at least one{skipped}"
        )


def _timed(run: _Run) -> list[str]:
    """The benchmarks that recorded runtimes, those that count first."""
    timed = [test for test in run.tests if run.runtimes.get(test)]
    if not any(run.tests[test].counted for test in timed):
        skipped = "".join(f"\n  {t.id}: {t.outcome}: {t.reason}" for t in run.tests.values())
        raise NoSpeedupError(
            "no speedup: no benchmark recorded runtimes: a task has exactly one test marked "
            f"@pytest.mark.{names.PERFORMANCE}{skipped}"
        )
    return sorted(timed, key=lambda test: not run.tests[test].counted)


def _require_checked(benchmark: str, kernel: _Run, correctness: _Run) -> None:
    seen = kernel.seen.get(benchmark)
    reason = benchmark_shape.unchecked(seen, correctness.tests.values(), correctness.seen)
    if reason:
        raise NoSpeedupError(f"no speedup: the shape of {benchmark} was never checked: {reason}")


def _rows(kernel: _Run, timed: Sequence[str], reference: _Run, theirs: Sequence[str]) -> list[Row]:
    missing = [test for test in timed if kernel.tests[test].counted and test not in theirs]
    if missing:
        raise NoSpeedupError(f"no speedup: the reference was not timed by {', '.join(missing)}")
    return [
        Row(
            test,
            tuple(kernel.runtimes[test]),
            tuple(reference.runtimes[test]),
            kernel.tests[test].counted,
            kernel.tests[test].contended or reference.tests[test].contended,
        )
        for test in timed
        if test in theirs
    ]


def _last_lines(text: str) -> str:
    lines = text.splitlines()
    left_out = len(lines) - _LINES_SHOWN
    return text if left_out <= 0 else "\n".join([f"({left_out} lines)", *lines[-_LINES_SHOWN:]])
