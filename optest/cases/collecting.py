"""The cases of an op-test file, found by running its ``main()`` without running a case."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from optest.cases import session as sessions
from optest.cases.benchmark import is_benchmark
from optest.cases.case import call_arguments, split_number
from optest.cases.session import Session
from optest.errors import UsageError
from optest.log import logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from optest.cases.row import Row
    from optest.cases.session import Collected


@dataclass
class Found:
    """What collection found: cases and the names of their tables by id, or why there are none."""

    cases: list[Collected] = field(default_factory=list)
    tables: dict[str, str] = field(default_factory=dict)
    gated: str = ""
    whole: str = ""


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def load(path: Path, *, alone: bool = False) -> ModuleType:
    """Import an op test by its path, as ``python path`` would find what stands beside it.

    Args:
        path: the file.
        alone: this process runs this op test and no other. Its folder stays on the import path,
            and it is a module that a process which it spawns finds by name.

    Raises:
        UsageError: it cannot be imported; the message names the file and the reason.
    """
    folder = str(path.resolve().parent)
    name = path.stem
    if not alone or name in sys.modules or not name.isidentifier():
        # Files of one name in two folders are two modules.
        name = f"op_test_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: expected a Python file (*.py).")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raises is the reason
        del sys.modules[name]
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UsageError(f"{path}: it cannot be imported ({reason}).") from None
    finally:
        if not alone:
            sys.path.remove(folder)
    return module


def smoke_arguments(module: ModuleType) -> list[str]:
    """The words of the module's ``SMOKE`` list: its command line for small shapes.

    Raises:
        UsageError: it is no list of text.
    """
    smoke = getattr(module, "SMOKE", [])
    if not isinstance(smoke, list) or not all(isinstance(word, str) for word in smoke):
        raise UsageError(
            f"{Path(str(module.__file__)).name}: SMOKE={smoke!r}: expected a list of "
            'command-line words, as ["-d", "bf16", "-s", "16,128,256"]'
        )
    return smoke


def run(session: Session, case: Collected) -> Row:
    """Run a collected case in ``session``, which is the current one, under the id it has."""
    session.expect_nth(*split_number(case.id))
    call = call_arguments(case.function, case.arguments)
    row: Row = case.function(*call.args, **call.kwargs)
    return row


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
    with sessions.using(session), arguments(module, argv), _listening(heard):
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
    return Found(cases=session.collected, tables=session.tables)


@contextlib.contextmanager
def arguments(module: ModuleType, argv: Sequence[str]) -> Iterator[None]:
    """``sys.argv`` as if the module had been started with these words."""
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
