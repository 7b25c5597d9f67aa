"""The cases of an op-test file, found by running its ``main()`` without running a case."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optest.cases import session as sessions
from optest.cases.benchmark import is_benchmark
from optest.cases.session import Session
from optest.log import logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from optest.cases.session import Collected


@dataclass
class Found:
    """What collection found: cases, or why there are none."""

    cases: list[Collected] = field(default_factory=list)
    gated: str = ""
    whole: str = ""


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def has_cases(module: ModuleType) -> bool:
    """Whether the module itself defines a ``main()`` and ``@benchmark`` functions or methods."""
    own = [value for value in vars(module).values() if is_own(value, module)]
    inside = [member for value in own if isinstance(value, type) for member in vars(value).values()]
    return callable(getattr(module, "main", None)) and any(
        is_benchmark(value) for value in (*own, *inside)
    )


def is_own(value: object, module: ModuleType) -> bool:
    """Whether ``value`` was defined in ``module``, not imported into it."""
    return getattr(value, "__module__", None) == module.__name__


def collect(module: ModuleType, argv: Sequence[str]) -> Found:
    """Run ``module.main()`` in collect mode with ``argv``.

    A ``main()`` that ends without a case after a warning was gated; one that cannot bear rows
    without results, or that checks something outside its cases, is to be run whole, with the
    reason.
    """
    session = Session(mode="collect")
    heard = _Warnings()
    output = io.StringIO()
    reason = ""
    with sessions.using(session), _arguments(module, argv), _listening(heard):
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                module.main()
        except SystemExit as stop:
            if stop.code not in (None, 0):
                words = output.getvalue().strip().splitlines()
                reason = f"main() exited {stop.code}: {words[-1] if words else ''}"
        except Exception as error:  # noqa: BLE001 - whatever main() cannot bear is the reason
            reason = f"{type(error).__name__}: {error}"
    if not reason and session.failures:
        reason = f"a check failed outside any case: {session.failures[0].reason}"
    if reason:
        return Found(whole=reason)
    if not session.collected and heard.messages:
        return Found(gated=heard.messages[-1])
    if not session.collected:
        return Found(whole="main() asked for no case")
    return Found(cases=session.collected)


@contextlib.contextmanager
def _arguments(module: ModuleType, argv: Sequence[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = [str(module.__file__), *argv]
    try:
        yield
    finally:
        sys.argv = before


@contextlib.contextmanager
def _listening(handler: logging.Handler) -> Iterator[None]:
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
