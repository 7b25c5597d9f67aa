"""One revision as files: a worktree of its own, with its submodules."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from optest.ab.clearing import Clearing
from optest.ab.repository import GitError, Repository
from optest.ab.revision import Revision
from optest.errors import UsageError


def check_out(repository: Repository, revision: Revision, path: Path, clearing: Clearing) -> None:
    """Make ``path`` hold the files of ``revision``.

    Of a commit, those that it holds, each submodule at the commit that belongs to it. Of the
    working tree those that git tracks or would track, as they stand, submodules alike; what git
    ignores is left behind.

    Raises:
        UsageError: it cannot be; the message names the revision and the reason.
    """
    try:
        if revision.working:
            _add(repository, revision.commit, path, clearing, "--no-checkout")
            Repository(path).git("read-tree", "HEAD")
            _copy(repository, path, clearing.folder)
        else:
            _add(repository, revision.commit, path, clearing)
            _submodules(repository, revision.commit, path, clearing)
    except (GitError, OSError, shutil.Error) as error:
        raise UsageError(f"revision {revision.word!r} cannot be checked out: {error}") from None


def _add(
    repository: Repository, commit: str, path: Path, clearing: Clearing, *options: str
) -> None:
    clearing.worktree(repository.top, path)
    # --force: the name of a worktree of an earlier time, whose folder is gone, is no reason.
    words = ("--force", "--detach", *options, str(path), commit)
    repository.git("worktree", "add", *words)


def _submodules(repository: Repository, commit: str, path: Path, clearing: Clearing) -> None:
    """From the user's own checkout of each: nothing is fetched. One without a checkout is left."""
    for name, own in repository.submodules(commit):
        if not (repository.top / name / ".git").exists():
            continue
        inner = Repository(repository.top / name)
        try:
            inner.git("cat-file", "-e", f"{own}^{{commit}}")
        except GitError:
            raise GitError(
                f"its submodule {name} is at {own[:12]}, which the checkout of {name} does not "
                f"hold: git -C {name} fetch brings it"
            ) from None
        with contextlib.suppress(OSError):
            (path / name).rmdir()  # git leaves an empty folder for it
        _add(inner, own, path / name, clearing)
        _submodules(inner, own, path / name, clearing)


def _copy(repository: Repository, path: Path, ours: Path) -> None:
    """Copy what git sees to ``path``, without our own folder, should it lie in there."""
    names = repository.names("ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in dict.fromkeys(names):
        there, here = repository.top / name, path / name
        if there.is_relative_to(ours):
            continue
        if there.is_dir() and not there.is_symlink():
            if (there / ".git").exists():  # a submodule, or a repository that lies inside
                here.mkdir(parents=True, exist_ok=True)
                _copy(Repository(there), here, ours)
            continue
        here.parent.mkdir(parents=True, exist_ok=True)
        # Tracked, and removed by the user; or removed just now.
        with contextlib.suppress(FileNotFoundError):
            _copy_one(there, here)


def _copy_one(there: Path, here: Path) -> None:
    if there.is_symlink():
        os.symlink(os.readlink(there), here)  # noqa: PTH115, PTH211 - byte for byte
    elif there.is_file():
        shutil.copy2(there, here)
