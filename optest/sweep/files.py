"""The op tests that a command line names, by names that are the same in every run there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from optest.errors import UsageError

_SKIPPED = {"__pycache__", "node_modules"}


def op_tests(paths: Iterable[Path], folder: Path) -> list[str]:
    """Files as named, and ``test_*.py`` of folders as named and below; each once, in order.

    Relative to ``folder`` where they lie below it, else absolute.

    Raises:
        UsageError: a path that is not there or no Python file, or a folder without op tests.
    """
    found: dict[Path, str] = {}
    for path in paths:
        for each in _of(folder / path, str(path)):
            found.setdefault(each.resolve(), name_of(each, folder))
    return list(found.values())


def name_of(path: Path, folder: Path) -> str:
    """What ``path`` is called in a store."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
    root = Path(os.path.abspath(folder))  # noqa: PTH100 - the same
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else whole.as_posix()


def _of(path: Path, shown: str) -> list[Path]:
    if os.path.isdir(path):  # noqa: PTH112 - Path's raises where a name is too long
        inside = _without_links(sorted(_inside(path)))
        if not inside:
            raise UsageError(f"{shown}: expected a folder with op tests (test_*.py), found none")
        return inside
    if not os.path.exists(path):  # noqa: PTH110 - the same
        raise UsageError(f"{shown}: there is no such file or folder")
    if path.suffix != ".py":
        raise UsageError(f"{shown}: expected an op test (*.py) or a folder of them")
    return [path]


def _without_links(files: list[Path]) -> list[Path]:
    """A link to another of the files is left out: the file has a name of its own."""
    own = {each.resolve() for each in files if not each.is_symlink()}
    return [each for each in files if not each.is_symlink() or each.resolve() not in own]


def _inside(folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _skipped(Path(top) / name)]
        yield from (Path(top) / name for name in files if _is_op_test(name))


def _is_op_test(name: str) -> bool:
    return name.startswith("test_") and name.endswith(".py")


def _skipped(folder: Path) -> bool:
    environment = os.path.exists(folder / "pyvenv.cfg")  # noqa: PTH110 - Path's raises where it may not look
    return folder.name.startswith(".") or folder.name in _SKIPPED or environment
