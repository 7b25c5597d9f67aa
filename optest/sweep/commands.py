"""Command lines to go on with: one case alone, a run that was not finished."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from optest.store.records import Planned
from optest.sweep import facts
from optest.sweep.request import Request

_BY_ITSELF = ("OPTEST_MODE", "OPTEST_GUARDS", "OPTEST_ONLY")


def optest() -> str:
    """How this process's own command line was called."""
    if Path(sys.argv[0]).name == "optest":
        return "optest"
    return f"{shlex.quote(sys.executable or 'python')} -m optest.cli.main"


def alone(unit: Planned, request: Request, *, collected: bool = True) -> str:
    """A shell line that runs one unit alone, under the same settings.

    Args:
        unit: a case or a whole script.
        request: how it was run.
        collected: False for a case of a script that is run whole: a sweep cannot run it by itself.
    """
    file = shlex.quote(unit.file)
    words = [*_settings(request)]
    if request.smoke:  # the words of its SMOKE list are the script's own
        keep = ["-k", shlex.quote(unit.id)] if collected and not unit.whole else []
        check = ["--check"] if request.mode == "check" else []
        return " ".join([*words, optest(), "run", file, "--smoke", *check, *keep])
    if request.mode == "check":
        words.insert(0, "OPTEST_MODE=check")
    if not unit.whole:
        words.insert(0, f"OPTEST_ONLY={shlex.quote(unit.id)}")
    python = shlex.quote(sys.executable or "python")
    return " ".join([*words, python, file, *map(shlex.quote, request.words or ())])


def resume(run: str, store: str) -> str:
    """A shell line that goes on with a run; ``store`` is empty for the default one."""
    where = ["--store", shlex.quote(store)] if store else []
    return " ".join([optest(), "run", "--resume", run, *where])


def _settings(request: Request) -> list[str]:
    by_mode = "full" if request.mode == "check" and request.smoke else "cheap"
    guards = [] if request.guards in (None, by_mode) else [f"OPTEST_GUARDS={request.guards}"]
    others = [
        f"{name}={shlex.quote(value)}"
        for name, value in facts.environment().items()
        if name.startswith("OPTEST_") and name not in _BY_ITSELF
    ]
    return [*guards, *others]
