"""The one case that a command line means."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optest.cases import collecting
from optest.cases.matching import matcher
from optest.errors import UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from optest.cases.session import Collected

_SHOWN = 5
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


@dataclass(frozen=True)
class Asked:
    """What was asked for.

    Attributes:
        case: a case's id (``test_x.py::test_y[m=1]``), of which the file may be a path; or the path
            of an op test.
        keep: only cases whose id this matches somewhere; ``*`` and ``?`` are wild.
        words: the op test's own command line; None for its ``SMOKE`` list where ``smoke``, and for
            its default sweep where not.
    """

    case: str
    keep: str = ""
    words: Sequence[str] | None = None
    smoke: bool = False

    @property
    def file(self) -> str:
        """Name or path of the op test."""
        return self.case.partition("::")[0]

    @property
    def id(self) -> str:
        """The case's id, its file by its bare name; empty where only a file is named."""
        file, separator, rest = self.case.partition("::")
        return f"{Path(file).name}::{rest}" if separator else ""


def path_of(asked: Asked, folder: Path) -> Path:
    """The op test that is meant.

    Raises:
        UsageError: there is none, or a bare name stands for several.
    """
    given = folder / asked.file
    if os.path.isfile(given):  # noqa: PTH113 - Path's raises where a name is too long
        if given.suffix != ".py":
            raise UsageError(f"{asked.file}: expected an op test (*.py), or a case's id")
        return given
    if asked.id and "/" not in asked.file:
        found = list(_named(asked.file, folder))
        if len(found) == 1:
            return found[0]
        if found:
            paths = ", ".join(str(path.relative_to(folder)) for path in found[:_SHOWN])
            raise UsageError(f"{asked.file}: there are several ({paths}): give the path before ::")
    raise UsageError(
        f"{asked.file or asked.case!r}: there is no such file in {folder}: expected the path of an "
        "op test, or a case's id as optest collect prints it"
    )


def _named(name: str, folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not _skipped(Path(top) / each))
        if name in files:
            yield Path(top) / name


def _skipped(folder: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name in _SKIPPED
    return hidden or (folder / "pyvenv.cfg").is_file()


def case_of(asked: Asked, path: Path, module: ModuleType) -> Collected:
    """The case that is meant, of those that the module's ``main()`` asks for.

    Raises:
        UsageError: it asks for none such, or for several; the message names some.
    """
    if not collecting.has_cases(module):
        raise UsageError(f"{path}: no @benchmark() function with a main() that calls it")
    found = collecting.collect(module, _argv(asked, module))
    if found.gated:
        raise UsageError(f"{path}: it is not for this machine: {found.gated}")
    if found.whole:
        raise UsageError(f"{path}: its cases cannot be run one by one: {found.whole}")
    if asked.id:
        left = [case for case in found.cases if case.id == asked.id]
    else:
        pattern = matcher(f"*{asked.keep}*")
        left = [case for case in found.cases if pattern.fullmatch(case.id)]
    if len(left) == 1:
        return left[0]
    shown = [case.id for case in left or found.cases][:_SHOWN]
    raise UsageError("\n  ".join([_unclear(asked, path, len(left)), *shown]))


def _argv(asked: Asked, module: ModuleType) -> list[str]:
    if asked.words is None and asked.smoke:
        return collecting.smoke_arguments(module)
    return list(asked.words or ())


def _unclear(asked: Asked, path: Path, count: int) -> str:
    if count:
        return f"{path}: {count} cases, and a trace is of one: give an id, or a part of it with -k:"
    what = asked.id or f"-k {asked.keep!r}"
    return (
        f"{what}: main() does not ask for it: what shapes are wanted is said after --, --smoke "
        "takes those of SMOKE. It asks for cases such as"
    )
