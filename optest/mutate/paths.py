"""The op tests that a command line names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from optest.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


def files(paths: Iterable[Path]) -> dict[Path, bool]:
    """Files as named, and ``test_*.py`` in folders as named and below; whether each was named.

    Raises:
        UsageError: a path that is not there or no Python file, or a folder without op tests.
    """
    found: dict[Path, bool] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob("test_*.py"))
            if not inside:
                raise UsageError(f"{path}: expected a folder with op tests (test_*.py), found none")
            found.update({each: found.get(each, False) for each in inside})
        elif not path.is_file():
            raise UsageError(f"{path}: no such file or folder")
        elif path.suffix != ".py":
            raise UsageError(f"{path}: expected an op test (*.py) or a folder of them")
        else:
            found[path] = True
    return found
