"""A case under the profiler, and the trace as a file."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.profiler import profile

from optest import settings
from optest.cases import collecting
from optest.cases import session as sessions
from optest.cases.session import Session
from optest.errors import UsageError
from optest.timing.phases import phase
from optest.timing.trace import activities
from optest.tracing.choice import Asked, case_of, path_of

if TYPE_CHECKING:
    from optest.cases.session import Collected

_SUFFIXES = (".json", ".json.gz")
# Ten calls are made in any case; hundreds would only make the picture large.
_BUDGET_S = "0.02"


@dataclass(frozen=True)
class Traced:
    """What became of a case under the profiler.

    Attributes:
        reasons: why it did not pass; empty where it did.
        events: how many events were recorded.
    """

    case: str
    path: Path
    reasons: tuple[str, ...]
    events: int


def trace(asked: Asked, path: Path, folder: Path) -> Traced:
    """Run one case under ``torch.profiler`` and write its trace.

    Guards are off and measurements short, so that what is seen is the candidates' work; its times
    hold the profiler's own cost, and are no results.

    Args:
        asked: which case.
        path: the file to write, ``.json`` or ``.json.gz``; it is there whole or not at all.
        folder: what relative paths start from.

    Raises:
        UsageError: no one case is meant, or the file cannot be written.
    """
    beside = _beside(path)
    op_test = path_of(asked, folder)
    module = collecting.load(op_test, alone=True)
    session = Session(guards="off", judged_by="", seed=settings.get_int("OPTEST_SEED"))
    with _short_measurements(), profile(activities=activities()) as prof:
        with phase("collect"):
            case = case_of(asked, op_test, module)
        _run(session, case)
    try:
        prof.export_chrome_trace(str(beside))
        beside.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        beside.unlink(missing_ok=True)
    reasons = tuple(f"{each.status}: {each.reason}" for each in session.failures)
    return Traced(case.id, path, reasons, len(prof.events() or ()))


def _run(session: Session, case: Collected) -> None:
    with sessions.using(session), phase(case.id):
        collecting.run(session, case)
        if torch.cuda.is_available():
            torch.cuda.synchronize()


def _beside(path: Path) -> Path:
    """A name in the same folder, where a file can be made: a trace is not recorded for nothing."""
    suffix = next((each for each in _SUFFIXES if path.name.endswith(each)), None)
    if suffix is None or path.name in _SUFFIXES:
        raise UsageError(f"-o {path}: expected a file named *{' or *'.join(_SUFFIXES)}")
    if path.is_dir():
        raise UsageError(f"-o {path}: this is a folder: expected a file to write")
    beside = path.with_name(f".{secrets.token_hex(8)}{suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.touch()
    except OSError as error:
        raise _unwritable(path, error) from None
    beside.unlink()
    return beside


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"-o {path}: it cannot be written ({error.strerror or error})")


@contextlib.contextmanager
def _short_measurements() -> Iterator[None]:
    """Unless the environment says how long: then it is taken at its word."""
    name = "OPTEST_BUDGET_S"
    before = os.environ.get(name)
    if name not in settings.given():
        os.environ[name] = _BUDGET_S
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
