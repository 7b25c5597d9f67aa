"""``@benchmark()``: the seam at which everything attaches to a plain test function."""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optest.cases import case as cases
from optest.cases import course, device, ending, second_pass, state, text
from optest.cases import session as sessions
from optest.cases.case import Case, Declared
from optest.cases.row import Row
from optest.cases.session import Collected
from optest.cases.standing import Standing
from optest.errors import CheckFailedError, UsageError
from optest.guards.outputs import Outputs
from optest.guards.poison import BUFFERS, fresh_memory_poisoned
from optest.log import logger

if TYPE_CHECKING:
    from optest.cases.session import Session

_Function = Callable[..., Any]


def benchmark(
    _function: object = None,
    /,
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
    if _function is not None:
        raise UsageError("@benchmark needs its brackets: write @benchmark()")
    declared = Declared(_names(inout), _names(aliases), _names(unwritten), deterministic)

    def decorate(function: _Function) -> Callable[..., Row]:
        if function.__module__ == "__main__":
            sessions.current().script_functions += 1
            ending.install()

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Row:  # noqa: ANN401 - the test's own parameters
            return _call(wrapper, declared, args, kwargs)

        wrapper.__optest_benchmark__ = True  # type: ignore[attr-defined]
        return wrapper

    return decorate


def is_benchmark(value: object) -> bool:
    """Whether ``value`` is a function that ``@benchmark()`` wrapped."""
    return getattr(value, "__optest_benchmark__", False) is True


def _names(names: Sequence[str]) -> tuple[str, ...]:
    if (
        callable(names)
        or isinstance(names, str)
        or not all(isinstance(name, str) for name in names)
    ):
        raise UsageError(f"{names!r}: expected a tuple of variable names, as inout=('y',)")
    return tuple(names)


def _call(
    wrapper: _Function, declared: Declared, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Row:
    session = sessions.current()
    function: _Function = wrapper.__wrapped__  # type: ignore[attr-defined]
    arguments = cases.bind(function, args, kwargs)
    file = cases.file_of(function)
    identity = cases.case_id(file, function.__name__, arguments)
    identity = cases.numbered(identity, session.nth(identity))
    columns = {name: text.cell(value) for name, value in cases.shown(arguments).items()}
    row = Row(columns, function=function.__name__, case_id=identity)
    if not session.wants(identity):
        session.filtered += 1
        ending.install()
        return row
    if session.mode == "collect":
        return _collect(session, row, Collected(identity, wrapper, arguments), file)
    ending.install()
    seed = cases.seed_of(identity, session.seed)
    case = Case(file, function.__name__, arguments, identity, seed, declared)
    course.begin(session, case, row)
    _run(session, case, row, function)
    session.unprinted.append(weakref.ref(row, session.unprinted.remove))
    return row


def _collect(session: Session, row: Row, collected: Collected, file: str) -> Row:
    row.status = "collected"
    session.collected.append(collected)
    session.emit(
        "collected",
        id=row.case_id,
        file=file,
        function=row.function,
        arguments={name: row[name] for name in row.arguments},
    )
    return row


def _run(session: Session, case: Case, row: Row, function: _Function) -> None:
    started = time.perf_counter()
    outer, session.case = session.case, case
    standing = Standing(session, function) if session.guards == "full" else None
    error = ""
    try:
        with device.factories_allocate_there(), state.contained(case.id) as case.left:
            state.seed_all(case.seed)
            case.outputs = Outputs()
            byte = None if session.guards == "off" else BUFFERS
            with fresh_memory_poisoned(byte, device=device.target(), waits=True):
                result = _invoke(function, case.arguments)
            _merge(row, result, function)
            if standing is not None and case.measured and not case.failures:
                second_pass.run(session, case, byte, lambda: _invoke(function, case.arguments))
        row.status = "empty" if result is None and not case.verdicts else "passed"
    except KeyboardInterrupt:
        row.status = "error"
        error = "interrupted"
        ending.interrupted(session)
        raise SystemExit(ending.INTERRUPTED) from None
    except CheckFailedError:
        row.status = "failed"  # the verdict is recorded already
    except BaseException as exception:
        # A script has no pytest to hear it, and is not to lose its other cases by it.
        if course.belongs_to_pytest(exception) and session.judged_by != "exit":
            raise
        error = text.of_error(exception)
        if course.is_no_fault(exception):
            row.status = "skipped"
            logger.warning("%s was skipped: %s", case.id, error)
        else:
            row.status = "error"
            logger.error("%s raised\n%s", case.id, course.traceback_of(exception))
    finally:
        session.case = outer
        if standing is not None:
            standing.judge(case)
        _warn_of_unchecked(case, row)
        course.finish(session, case, row, error, time.perf_counter() - started)


def _invoke(function: _Function, arguments: dict[str, Any]) -> object:
    signature_order = cases.call_arguments(function, arguments)
    return function(*signature_order.args, **signature_order.kwargs)


def _merge(row: Row, result: object, function: _Function) -> None:
    if result is None:
        return
    if not isinstance(result, Mapping):
        raise UsageError(
            f"{function.__name__}() returned a {type(result).__name__}: expected a dict of "
            'columns, as {"cpp us": us, "cpp err": err}, or None'
        )
    taken = [str(key) for key in result if key in row.arguments]
    if taken:
        raise UsageError(
            f"{function.__name__}() returned the column {', '.join(taken)}, which is the name of "
            "an argument: rename the column"
        )
    row.update({str(key): value for key, value in result.items()})


def _warn_of_unchecked(case: Case, row: Row) -> None:
    failed = row.status != "passed" or case.failures
    if not failed and case.measured and not case.verdicts:
        logger.warning("%s measured candidates and checked none of them", case.id)
