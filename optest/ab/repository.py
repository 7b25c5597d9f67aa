"""A git repository as git tells of it. Nothing here writes to its checkout, index or stash."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from optest.errors import UsageError

_SECONDS = 600  # a checkout of a large repository on a slow disk
_LONGEST_WORDS = 300
# Set where git itself calls us, as in a hook: they would send every command to its own repository.
_LOCAL = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"),
)


class GitError(UsageError):
    """Git refused; the message holds its last words."""


def environment() -> dict[str, str]:
    """The variables of this process without those that name a repository."""
    kept = {name: value for name, value in os.environ.items() if name not in _LOCAL}
    return {**kept, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


@dataclass(frozen=True)
class Repository:
    """A checkout, by the folder at its top."""

    top: Path

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """The checkout that ``folder`` lies in.

        Raises:
            UsageError: there is none, or no git.
        """
        try:
            found = Repository(folder).git("rev-parse", "--show-toplevel")
        except GitError as error:
            raise UsageError(
                f"{folder}: this is in no git repository with a checkout ({error}): optest ab "
                "compares two commits of one. For runs that are there already: optest compare"
            ) from None
        return cls(Path(found).resolve())

    def git(self, *words: str) -> str:
        """What git prints, without white space around it.

        Raises:
            GitError: it failed.
        """
        return self.raw(*words).decode("utf-8", "surrogateescape").strip()

    def raw(self, *words: str) -> bytes:
        """What git prints, byte by byte.

        Raises:
            GitError: it failed.
        """
        command = ["git", "-C", str(self.top), "-c", "core.hooksPath=/dev/null", *words]
        try:
            done = subprocess.run(  # noqa: S603 - its words are ours
                command,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                env=environment(),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is ours to handle: half a checkout helps nobody
            )
        except FileNotFoundError:
            raise UsageError("optest ab needs git, and there is none on PATH") from None
        except subprocess.TimeoutExpired:
            raise GitError(f"git {words[0]} took longer than {_SECONDS} s in {self.top}") from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [""]
            raise GitError(f"git {words[0]}: {said[-1][:_LONGEST_WORDS]}")
        return done.stdout

    def names(self, *words: str) -> list[str]:
        """What a command with ``-z`` lists; a name that is no UTF-8 keeps its bytes."""
        return [os.fsdecode(name) for name in self.raw(*words).split(b"\0") if name]

    def submodules(self, commit: str) -> Iterator[tuple[str, str]]:
        """Path and commit of each submodule that ``commit`` has, its own submodules left out."""
        for entry in self.names("ls-tree", "-r", "-z", commit):
            facts, _, path = entry.partition("\t")
            mode, _, name = facts.split(" ", 2)
            if mode == "160000":
                yield path, name
