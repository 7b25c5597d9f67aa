"""Both sides made ready: revisions looked up, checked out, built, their op tests found."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from optest.ab.clearing import Clearing
from optest.ab.repository import Repository
from optest.ab.request import AbRequest
from optest.ab.revision import Revision, resolved
from optest.ab.side import SIDES, Side
from optest.ab.worktree import check_out
from optest.errors import UsageError
from optest.sweep import files

_SAID_LINES = 15


@contextlib.contextmanager
def made(request: AbRequest, repository: Repository, here: Path) -> Iterator[list[Side]]:
    """Base and head, until the context is left.

    Args:
        request: what was asked for.
        repository: which has both revisions.
        here: the working folder, in the checkout of ``repository``.

    Raises:
        UsageError: a word that names no revision, one that cannot be checked out, a build that
            failed.
    """
    revisions = [resolved(repository, word) for word in (request.base, request.head)]
    with Clearing() as clearing:
        sides = [
            _side(name, revision, clearing.folder, here.relative_to(repository.top))
            for name, revision in zip(SIDES, revisions, strict=True)
        ]
        for side in sides:
            check_out(repository, side.revision, side.root, clearing)
            side.folder.mkdir(parents=True, exist_ok=True)
            if request.build:
                _build(request.build, side, side.home(repository.top).environment)
        yield sides


def _side(name: str, revision: Revision, folder: Path, inside: Path) -> Side:
    # Of one length: a longer path must not be what makes a side slower.
    root = folder / name / "checkout"
    return Side(name, revision, root, root / inside, folder / name / "builds")


def _build(words: Sequence[str], side: Side, environment: Mapping[str, str]) -> None:
    shown = shlex.join(words)
    try:
        done = subprocess.run(  # noqa: S603 - the user's own command
            list(words),
            cwd=side.root,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise UsageError(f"--build {shown}: {error.strerror}") from None
    if done.returncode != 0:
        said = done.stdout.decode("utf-8", "replace").strip().splitlines()[-_SAID_LINES:]
        head = f"exit code {done.returncode} in {side.name}, {side.revision.shown}:"
        raise UsageError("\n".join([f"--build {shown}: {head}", *said]))


def inside(paths: Sequence[str], repository: Repository, here: Path) -> list[str]:
    """Paths of the command line, relative to the working folder.

    Raises:
        UsageError: one lies outside the repository.
    """
    return [_inside(path, repository, here) for path in paths]


def _inside(path: str, repository: Repository, here: Path) -> str:
    whole = Path(os.path.abspath(here / path))  # noqa: PTH100 - resolve() would follow links
    if not whole.is_relative_to(repository.top):
        whole = whole.resolve()
    if not whole.is_relative_to(repository.top):
        raise UsageError(
            f"{path}: it lies outside {repository.top}: expected op tests of the repository that "
            "is compared"
        )
    return Path(os.path.relpath(whole, here)).as_posix()


def op_tests(paths: Sequence[str], side: Side) -> list[str]:
    """The op tests that the paths have on this side; none for a path that is not there.

    Raises:
        UsageError: a path is there and is no op test or folder of them.
    """
    there = [Path(path) for path in paths if (side.folder / path).exists()]
    found = files.op_tests(there, side.folder) if there else []
    # Relative to the working folder also where they lie beside it, so that both sides agree.
    return [Path(os.path.relpath(side.folder / name, side.folder)).as_posix() for name in found]
