"""``@benchmark()``: the seam at which everything attaches to a plain test function."""

from __future__ import annotations

import functools
import time
import traceback
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from optest.cases import case as cases
from optest.cases import device, ending, saved, state, text
from optest.cases import session as sessions
from optest.cases.case import Case, Declared
from optest.cases.row import ERROR_COLUMN, Row
from optest.errors import UsageError
from optest.guards.outputs import Outputs
from optest.guards.poison import fresh_memory_poisoned
from optest.log import logger

if TYPE_CHECKING:
    from optest.cases.session import Session

_LONGEST_REASON = 2_000
_LONGEST_TRACEBACK = 20_000
_Function = Callable[..., Any]


def benchmark(
    *,
    inout: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
    unwritten: tuple[str, ...] = (),
    deterministic: bool = True,
) -> Callable[[_Function], Callable[..., Row]]:
    """Make each call of a test function a case; its parameters are the table's left columns.

    The wrapped function returns a dict row: the arguments, then what the function returned. A case
    that raises gives a row with an ``error`` column, is logged with its traceback, and the sweep
    goes on; the process then exits 1.

    Args:
        inout: names of variables in the test function that candidates update in place.
        aliases: names of variables that candidates return as views of their inputs.
        unwritten: names of variables that candidates leave partly unwritten.
        deterministic: whether the same inputs give the same bits.

    Raises:
        UsageError: used bare, as ``@benchmark`` instead of ``@benchmark()``.
    """
    declared = Declared(_names(inout), _names(aliases), _names(unwritten), deterministic)

    def decorate(function: _Function) -> Callable[..., Row]:
        if function.__module__ == "__main__":
            sessions.current().script_functions += 1
            ending.install()

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Row:  # noqa: ANN401 - the test's own parameters
            return _call(function, declared, args, kwargs)

        wrapper.__optest_benchmark__ = True  # type: ignore[attr-defined]
        return wrapper

    return decorate


def is_benchmark(value: object) -> bool:
    """Whether ``value`` is a function that ``@benchmark()`` wrapped."""
    return getattr(value, "__optest_benchmark__", False) is True


def _names(names: object) -> tuple[str, ...]:
    if callable(names):
        raise UsageError("@benchmark needs its brackets: write @benchmark()")
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):  # type: ignore[attr-defined]
        raise UsageError(f"{names!r}: expected a tuple of variable names, as inout=('y',)")
    return tuple(names)  # type: ignore[arg-type]


def _call(
    function: _Function, declared: Declared, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Row:
    session = sessions.current()
    arguments = cases.bind(function, args, kwargs)
    file = cases.file_of(function)
    identity = cases.case_id(file, function.__name__, arguments)
    identity = cases.case_id(file, function.__name__, arguments, session.nth(identity))
    columns = {name: text.cell(value) for name, value in cases.shown(arguments).items()}
    row = Row(columns, function=function.__name__, case_id=identity)
    if not session.wants(identity):
        return row
    if session.mode == "collect":
        return _collect(session, row, function, arguments, file)
    ending.install()
    seed = cases.seed_of(identity, session.seed)
    case = Case(file, function.__name__, arguments, identity, seed, declared)
    session.emit(
        "started", id=identity, file=file, function=function.__name__, arguments=columns, seed=seed
    )
    _run(session, case, row, function)
    session.unprinted.append(weakref.ref(row, session.unprinted.remove))
    return row


def _collect(
    session: Session, row: Row, function: _Function, arguments: dict[str, Any], file: str
) -> Row:
    row.status = "collected"
    session.collected.append((row.case_id, function, arguments))
    session.emit(
        "collected", id=row.case_id, file=file, function=function.__name__, arguments=dict(row)
    )
    return row


def _run(session: Session, case: Case, row: Row, function: _Function) -> None:
    started = time.perf_counter()
    outer, session.case = session.case, case
    error = ""
    try:
        with state.contained(case.id), device.factories_allocate_there():
            state.seed_all(case.seed)
            case.outputs = Outputs()
            with fresh_memory_poisoned(device=device.target()):
                result = _invoke(function, case.arguments)
            _merge(row, result, function)
        row.status = "empty" if result is None and not case.verdicts else "passed"
    except KeyboardInterrupt:
        session.interrupted = True
        row.status = "error"
        error = "interrupted"
        raise SystemExit(ending.INTERRUPTED) from None
    except BaseException as exception:  # noqa: BLE001 - a candidate's sys.exit() is an error of its case
        if _belongs_to_pytest(exception):
            raise
        row.status = "error"
        error = _reason(exception)
        logger.error("%s raised\n%s", case.id, _traceback())
    finally:
        session.case = outer
        _finish(session, case, row, error, time.perf_counter() - started)


def _invoke(function: _Function, arguments: dict[str, Any]) -> object:
    signature_order = cases.call_arguments(function, arguments)
    return function(*signature_order.args, **signature_order.kwargs)


def _merge(row: Row, result: object, function: _Function) -> None:
    if result is None:
        return
    if not isinstance(result, Mapping):
        raise UsageError(
            f"{function.__name__}() returned a {type(result).__name__}: expected a dict of columns, "
            'as {"cpp us": us, "cpp err": err}, or None'
        )
    taken = [str(key) for key in result if key in row.arguments]
    if taken:
        raise UsageError(
            f"{function.__name__}() returned the column {', '.join(taken)}, which is the name of an "
            "argument: rename the column"
        )
    row.update({str(key): value for key, value in result.items()})


def _finish(session: Session, case: Case, row: Row, error: str, seconds: float) -> None:
    if row.status == "passed" and case.failures:
        row.status = "failed"
    reason = error or "; ".join(dict.fromkeys(case.failures))[:_LONGEST_REASON]
    if row.status == "error":
        row[ERROR_COLUMN] = error
    session.totals[row.status] += 1
    if row.status in ("failed", "error"):
        session.failures.append(sessions.Failure(case.id, row.status, reason))
        saved.save_inputs(case)
    session.emit(
        "finished",
        id=case.id,
        status=row.status,
        seconds=seconds,
        reason=reason,
        row={key: value for key, value in row.items() if key not in row.arguments},
        checks=[{"verdict": verdict} for verdict in case.verdicts],
    )
    case.forget()


def _belongs_to_pytest(exception: BaseException) -> bool:
    # pytest.skip() and pytest.fail() inside a case are words to pytest, not crashes.
    return type(exception).__module__ == "_pytest.outcomes"


def _reason(exception: BaseException) -> str:
    try:
        words = str(exception).strip()
    except Exception:  # noqa: BLE001 - an exception whose text raises is still that exception
        words = "(its text cannot be read)"
    first = words.splitlines()[0][:_LONGEST_REASON] if words else ""
    return f"{type(exception).__name__}: {first}" if first else type(exception).__name__


def _traceback() -> str:
    lines = traceback.format_exc(chain=True)
    if len(lines) <= _LONGEST_TRACEBACK:
        return lines
    half = _LONGEST_TRACEBACK // 2
    return f"{lines[:half]}\n… {len(lines) - 2 * half} characters left out …\n{lines[-half:]}"
