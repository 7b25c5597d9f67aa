"""``run``: a kernel, the specs of its arguments and a golden function, held together."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optest.cases import case as cases
from optest.cases import course, ending, state, text
from optest.cases import session as sessions
from optest.cases.case import Case
from optest.cases.row import Row
from optest.cases.session import Collected
from optest.golden import faults, identity
from optest.golden.config import Config
from optest.golden.pipeline import Pipeline
from optest.golden.request import Request
from optest.golden.result import RunResult
from optest.golden.stages import say
from optest.log import logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optest.checking import Comparator
    from optest.golden.kernel import Spec

_SKIPPED = ", validation skipped: no golden_fn or golden_data"


def run(  # noqa: PLR0913, PLR0917 - upstream's signature
    fn: Any,  # noqa: ANN401 - of many kinds
    specs: Sequence[Spec],
    golden_fn: Callable[[dict[str, Any]], object] | None = None,
    golden_data: str | os.PathLike[str] | None = None,
    config: Config | Mapping[str, object] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    compare_fn: Mapping[str, Comparator] | None = None,
    compile_only: bool = False,
    runtime_dir: str | os.PathLike[str] | None = None,
    save_data: bool = False,
) -> RunResult:
    """Compile a kernel, run it, and hold its outputs against golden ones.

    Args:
        fn: a Python callable, a torch operator, a Triton kernel with its grid, or an object with
            ``compile(specs, config)``.
        specs: one ``TensorSpec`` or ``ScalarSpec`` for each parameter, in the kernel's order.
        golden_fn: fills the outputs of a dict of tensors and numbers by name; it gets clones.
        golden_data: ``data`` folder of a run with ``save_data``: inputs and golden outputs are read
            from there, and ``golden_fn`` is not called.
        config: see ``Config``; a dict of its attributes, of upstream's keys too.
        rtol: relative part of the bound ``atol + rtol * |expected|``.
        atol: absolute part of it.
        compare_fn: by output name, a comparator in place of that bound.
        compile_only: compile, for targets that need not be here, and run nothing.
        runtime_dir: ``work_dir`` of an earlier run, whose compiled kernel is run again.
        save_data: keep inputs and golden outputs in ``<work_dir>/data``.

    Returns:
        Faults of set-up and mismatches come back in the result. Either also fails the process at
        its exit (exit code 1), whatever the script does with the result.

    Raises:
        TypeError: a key of ``config`` that nobody knows.
        Exception: whatever the golden function or the kernel raises.
    """
    options = Options.of(config)
    folders = {"golden_data": golden_data, "runtime_dir": runtime_dir}
    fault = options.fault or _unusable(specs, compare_fn, folders)
    request = Request(
        fn=fn,
        specs=list(specs) if isinstance(specs, Iterable) else [],
        golden_fn=golden_fn,
        golden_data=_folder(golden_data),
        config=options.config,
        rtol=rtol,
        atol=atol,
        compare_fn=compare_fn if isinstance(compare_fn, Mapping) else {},
        compile_only=compile_only,
        runtime_dir=_folder(runtime_dir),
        save_data=save_data,
    )
    file = Path(sys._getframe(1).f_code.co_filename).name  # noqa: SLF001 - whose run this is
    return _Run(request, fault, file).result()


def _unusable(specs: object, compare_fn: object, folders: Mapping[str, object]) -> str:
    """What is wrong with arguments of which nothing can be made; empty where nothing is."""
    if not isinstance(specs, Iterable):
        return f"specs is a {type(specs).__name__}: expected a list of TensorSpec and ScalarSpec"
    if not isinstance(compare_fn, (Mapping, type(None))):
        return (
            f"compare_fn is a {type(compare_fn).__name__}: expected a dict of comparators by the "
            "outputs' names, as {'out': ratio_allclose()}"
        )
    for name, folder in folders.items():
        if not isinstance(folder, (str, os.PathLike, type(None))):
            return f"{name}={folder!r}: expected a folder's path, or None"
    return ""


def _folder(given: object) -> Path | None:
    return Path(given) if isinstance(given, (str, os.PathLike)) else None


@dataclass(frozen=True)
class Options:
    """A config, and what is wrong with its values, which is for the result to say."""

    config: Config
    fault: str = ""

    @classmethod
    def of(cls, given: Config | Mapping[str, object] | None) -> Options:
        """Read the caller's config.

        Raises:
            TypeError: a key that nobody knows.
        """
        try:
            return cls(Config.of(given))
        except ValueError as error:
            return cls(Config(), str(error))


@dataclass(frozen=True)
class _Outcome:
    """The result, how the session counts it, and the fault of set-up, which is no failed check."""

    result: RunResult
    status: str
    fault: str


class _Run:
    """One run as a case of the session."""

    def __init__(self, request: Request, fault: str, file: str) -> None:
        self._request, self._fault = request, fault
        self._session = sessions.current()
        name, columns = identity.kernel_name(request.fn), identity.columns(request.specs)
        plain = cases.case_id(file, name, columns)
        self._id = cases.numbered(plain, self._session.nth(plain))
        # Without the number: the same run gives the same inputs, however often a process makes it.
        seed = cases.seed_of(plain, self._session.seed)
        self._case = Case(file, name, dict(columns), self._id, seed)
        self._row = Row(columns, function=name, case_id=self._id)
        self._started = time.perf_counter()

    def result(self) -> RunResult:
        """Run it, or say why not."""
        session = self._session
        ending.install()
        if not session.wants(self._id):
            session.filtered += 1
            return self._not_run("not on the list of OPTEST_ONLY")
        if session.mode == "collect":
            self._collect()
            return self._not_run("OPTEST_MODE=collect")
        course.begin(session, self._case, self._row)
        outer, session.case = session.case, self._case
        error = ""
        try:
            with state.contained(self._id), _log_level(self._request.config.log_level):
                outcome = self._outcome()
            self._row.status = outcome.status
            error = outcome.fault
        except BaseException as exception:
            self._row.status, error = "error", text.of_error(exception)
            raise
        finally:
            session.case = outer
            course.finish(session, self._case, self._row, error, self._seconds())
        return outcome.result

    def _outcome(self) -> _Outcome:
        pipeline = Pipeline(self._request, self._session, self._case, self._row)
        error, fault = None, self._fault
        try:
            if not fault:
                pipeline.run()
        except faults.Mismatched as mismatched:
            error = str(mismatched)
        except faults.Stopped as stopped:
            fault = str(stopped)
        seconds = self._seconds()
        error = fault or error
        skipped = "" if self._request.validates or self._request.compile_only else _SKIPPED
        say(f"{'FAIL' if error else 'PASS'} ({seconds:.2f}s{'' if error else skipped})")
        result = RunResult(not error, error, seconds, pipeline.work_dir, pipeline.bench)
        status = "error" if fault else "passed" if pipeline.checked else "empty"
        return _Outcome(result, status, fault)

    def _seconds(self) -> float:
        return time.perf_counter() - self._started

    def _collect(self) -> None:
        request = {f.name: getattr(self._request, f.name) for f in fields(self._request)}
        self._session.collected.append(Collected(self._id, run, request))
        self._row.status = "collected"
        self._session.emit(
            "collected",
            id=self._id,
            file=self._case.file,
            function=self._row.function,
            arguments=dict(self._row),
        )

    def _not_run(self, why: str) -> RunResult:
        say(f"skipped: {why}")
        return RunResult(passed=True)


@contextmanager
def _log_level(level: int | None) -> Iterator[None]:
    """What ``optest.logger`` prints inside."""
    before = logger.level
    if level is not None:
        logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
