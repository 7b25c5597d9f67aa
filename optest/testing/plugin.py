"""The pytest plugin: ``@benchmark`` functions become one item a case; failed checks fail items."""

from __future__ import annotations

import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from optest import settings
from optest.errors import SettingError, UsageError
from optest.testing import fixtures, options, results, tally, tasks

if TYPE_CHECKING:
    from collections.abc import Generator

    from optest.cases.collecting import Found
    from optest.cases.session import Session


_FOUND: pytest.StashKey[Found] = pytest.StashKey()
_SESSION: pytest.StashKey[Session] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """``--optest-full``: the default sweep of each op test instead of its ``SMOKE`` list.

    ``--guards``: how closely each candidate is watched.

    What kernel tasks need stands in modules of their own, plugins each.
    """
    for module in (options, fixtures, tasks, tally, results):
        pluginmanager.register(module, module.__name__)
    group = parser.getgroup("optest", "op tests")
    group.addoption(
        "--optest-full",
        action="store_true",
        help="run every shape of each op test's default sweep instead of its SMOKE list",
    )
    group.addoption(
        "--guards",
        choices=("off", "cheap", "full"),
        default=None,
        help="guards around each candidate; default: OPTEST_GUARDS where it is set, else full",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a bad ``OPTEST_`` variable before anything runs, here and not in each worker."""
    try:
        settings.validate()
        if settings.get("OPTEST_ONLY") or settings.get("OPTEST_EVENTS"):
            # Whether these files can be opened is known once a session has opened them.
            from optest.cases.session import Session

            config.stash[_SESSION] = Session.from_environment()
    except SettingError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> Any:  # noqa: ANN401
    """Give the cases that a module's ``main()`` asks for in place of its ``main()``.

    A ``@benchmark`` function that no ``main()`` speaks for is an ordinary test of pytest's own.
    """
    is_main = name == "main" and isinstance(collector, pytest.Module)
    if not is_main and not getattr(obj, "__optest_benchmark__", False):
        return None
    # Everything else is imported here, so that a suite without op tests does not pay for torch.
    if "optest.cases.benchmark" not in sys.modules:
        return None
    from optest.cases import collecting

    module = collector.getparent(pytest.Module)
    if is_main:
        return _items(module) if collecting.has_cases(module.obj) else None
    if not collecting.is_own(collector.obj if collector is not module else obj, module.obj):
        return []  # its items are in its own file
    return [] if collecting.has_cases(module.obj) and _main_speaks_for(module, obj) else None


def _main_speaks_for(module: pytest.Module, function: Any) -> bool:  # noqa: ANN401
    """Whether a module's ``main()`` decides what of ``function`` runs.

    It does where it calls it, and for all plain functions: it may leave some out of a smoke run.
    A method or a parametrised function that it does not call is meant for pytest.
    """
    marks = {mark.name for mark in getattr(function, "pytestmark", ())}
    if "." not in function.__qualname__ and "parametrize" not in marks:
        return True
    cases, wanted = _found(module).cases, inspect.unwrap(function)
    return not cases or any(inspect.unwrap(case.function) is wanted for case in cases)


def _items(module: pytest.Module) -> list[pytest.Item]:
    from optest.testing import items

    found, argv = _found(module), _argv(module)
    if found.whole:
        return [items.WholeItem.make(module, found.whole, argv)]
    if found.gated:
        return [items.GatedItem.make(module, found.gated)]
    return [items.CaseItem.make(module, case, argv) for case in found.cases]


def _found(module: pytest.Module) -> Found:
    from optest.cases import collecting

    if _FOUND not in module.stash:
        module.stash[_FOUND] = collecting.collect(module.obj, _argv(module))
    return module.stash[_FOUND]


def _argv(module: pytest.Module) -> list[str]:
    return [] if module.config.getoption("--optest-full") else _smoke(module)


def _smoke(module: pytest.Module) -> list[str]:
    from optest.cases import collecting

    try:
        return collecting.smoke_arguments(module.obj)
    except UsageError as error:
        raise pytest.Collector.CollectError(str(error)) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, Any, Any]:
    """One session for the process; cases are checked, and timed only where OPTEST_MODE is run.

    Under full guards, unless ``--guards`` or OPTEST_GUARDS says otherwise.
    """
    if "optest.cases.session" not in sys.modules:
        return (yield)
    from optest.cases import session as sessions

    opened = session.config.stash.get(_SESSION, None)
    ours = opened or sessions.Session.from_environment()
    ours.judged_by = "pytest"
    if not os.environ.get("OPTEST_MODE"):
        ours.mode = "check"
    ours.guards = session.config.getoption("--guards") or (
        ours.guards if os.environ.get("OPTEST_GUARDS") else "full"
    )
    with sessions.using(ours):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Make a check that fails in a fixture an error of the item."""
    since = _failures()
    try:
        yield
    except pytest.FixtureLookupError as error:
        if not _is_uncalled(item, error):
            raise
        pytest.fail(
            f"{item.nodeid}: nothing gives its argument {error.argname!r}: give the file a main() "
            "that calls it, or parametrise it with pytest.mark.parametrize",
            pytrace=False,
        )
    except pytest.skip.Exception:
        _raise_failures(since)
        raise
    _raise_failures(since)


def _is_uncalled(item: pytest.Item, error: pytest.FixtureLookupError) -> bool:
    function = getattr(item, "obj", None)
    if not getattr(function, "__optest_benchmark__", False):
        return False
    assert callable(function)
    return error.msg is None and error.argname in inspect.signature(function).parameters


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Call a ``@benchmark`` function without showing pytest its row, at which it would warn."""
    function = pyfuncitem.obj
    if not getattr(function, "__optest_benchmark__", False):
        return (yield)
    from optest.testing import items

    def discard(**arguments: Any) -> None:  # noqa: ANN401 - the test's own parameters
        items.skip_unless_ran(function(**arguments))

    pyfuncitem.obj = discard
    try:
        return (yield)
    finally:
        pyfuncitem.obj = function


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Fail an ordinary test whose ``checkAllclose`` failed although it ignored the verdict."""
    since = _failures()
    try:
        yield
    except pytest.skip.Exception:
        _raise_failures(since)
        raise
    _raise_failures(since)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Make a check that fails while a fixture is torn down an error of the item."""
    since = _failures()
    yield
    _raise_failures(since)


def _failures() -> int:
    session = _session()
    return len(session.failures) if session is not None else 0


def _raise_failures(since: int) -> None:
    session = _session()
    if session is not None:
        from optest.testing import items

        session.judged_by = "pytest"
        items.raise_failures(session, since)


def _session() -> Session | None:
    """The session, where a test has made use of one; asking for it must not import torch.

    A session that a test brought itself is that test's own to judge.
    """
    sessions = sys.modules.get("optest.cases.session")
    session = sessions.current() if sessions is not None else None
    return session if session is not None and session.judged_by else None
