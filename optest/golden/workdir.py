"""A fresh folder for each run."""

from __future__ import annotations

import itertools
import os
import re
from datetime import datetime
from pathlib import Path

from optest.errors import UsageError

PARENT = Path(".optest/golden")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST = 80


def make(kernel: str) -> Path:
    """``.optest/golden/<kernel>-<time>``, ``-2`` … where another run has made that one.

    Raises:
        UsageError: (a ValueError) no folder can be made there.
    """
    name = _UNSAFE.sub("_", kernel).strip("._")[:_LONGEST] or "kernel"
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S-%f")
    try:
        PARENT.mkdir(parents=True, exist_ok=True)
        for suffix in itertools.chain([""], (f"-{n}" for n in itertools.count(2))):
            path = PARENT / f"{name}-{stamp}{suffix}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as error:
        where = os.fspath(PARENT.absolute())
        raise UsageError(f"no work folder can be made in {where}: {error.strerror}") from None
    raise AssertionError("unreachable: the numbers do not end")


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; a name that no folder can have is one that is not there."""
    try:
        return path.is_dir()
    except OSError:
        return False
