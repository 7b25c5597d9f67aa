"""The pytest plugin: ``@benchmark`` functions become one item a case; failed checks fail items."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from optest.cases.session import Session

_MODULE_CASES = "_optest_cases"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--optest-full``: the default sweep of each op test instead of its ``SMOKE`` list."""
    group = parser.getgroup("optest", "op tests")
    group.addoption(
        "--optest-full",
        action="store_true",
        help="run every shape of each op test's default sweep instead of its SMOKE list",
    )


def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> Any:  # noqa: ANN401
    """Give all cases of a module in place of its first ``@benchmark`` function."""
    if not getattr(obj, "__optest_benchmark__", False):
        return None
    # Everything else is imported here, so that a suite without op tests does not pay for torch.
    from optest.testing import collecting

    module = collector.getparent(pytest.Module)
    if module is None or not collecting.has_cases(module.obj):
        return _parametrised_or_none(name, obj)
    if getattr(module, _MODULE_CASES, False):
        return []
    setattr(module, _MODULE_CASES, True)
    return _items(module)


def _parametrised_or_none(name: str, obj: object) -> Any:  # noqa: ANN401
    """A ``@benchmark`` function without a ``main()``: pytest's own item where pytest can call it.

    Imported ones (``from op_tests.test_x import test_x``) have their items in their own file.
    """
    del name
    return None if getattr(obj, "pytestmark", None) else []


def _items(module: pytest.Module) -> list[pytest.Item]:
    from optest.testing import collecting, items

    full = module.config.getoption("--optest-full")
    argv = [] if full else _smoke(module)
    found = collecting.collect(module.obj, argv)
    if found.whole:
        return [items.WholeItem.make(module, found.whole, argv)]
    if found.gated:
        return [items.GatedItem.make(module, found.gated)]
    return [items.CaseItem.make(module, case, argv) for case in found.cases]


def _smoke(module: pytest.Module) -> list[str]:
    smoke = getattr(module.obj, "SMOKE", [])
    if not isinstance(smoke, list) or not all(isinstance(word, str) for word in smoke):
        raise pytest.UsageError(
            f"{module.path.name}: SMOKE={smoke!r}: expected a list of command-line words, as "
            '["-d", "bf16", "-s", "16,128,256"]'
        )
    return smoke


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, Any, Any]:
    """One session for the process; cases are checked, and timed only where OPTEST_MODE is run."""
    if "optest.cases.session" not in sys.modules:
        return (yield)
    from optest.cases import session as sessions

    session = sessions.Session.from_environment()
    session.judged_by = "pytest"
    if not os.environ.get("OPTEST_MODE"):
        session.mode = "check"
    with sessions.using(session):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail an ordinary test whose ``checkAllclose`` failed although it ignored the verdict."""
    before = _failures()
    yield
    session = _session()
    if session is not None and isinstance(item, pytest.Function):
        from optest.testing import items

        session.judged_by = "pytest"
        items.raise_failures(session, before, [str(item.path)])


def _failures() -> int:
    session = _session()
    return len(session.failures) if session is not None else 0


def _session() -> Session | None:
    """The session, where a test has made use of one; asking for it must not import torch.

    A session that a test brought itself is that test's own to judge.
    """
    sessions = sys.modules.get("optest.cases.session")
    session = sessions.current() if sessions is not None else None
    return session if session is not None and session.judged_by else None
