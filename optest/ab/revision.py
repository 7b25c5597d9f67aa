"""What a word of the command line names: a commit, or the working tree as it stands."""

from __future__ import annotations

from dataclasses import dataclass

from optest.ab.repository import GitError, Repository
from optest.errors import UsageError

WORKING = ("WORKTREE", ".")
_SHORT = 12


@dataclass(frozen=True)
class Revision:
    """One version of the repository.

    Attributes:
        word: as it was asked for.
        commit: its full hash; of the working tree, of the commit that it stands on.
        branch: its name where the word is one, or says ``HEAD`` on one; else empty.
        working: whether it is the working tree with its changes.
        dirty: whether tracked files differ from ``commit``.
    """

    word: str
    commit: str
    branch: str = ""
    working: bool = False
    dirty: bool = False

    @property
    def shown(self) -> str:
        """``main (0b7ddfa66e1c)``; a working tree with changes says so."""
        if self.working:
            return f"working tree ({self.commit[:_SHORT]}{', changed' if self.dirty else ''})"
        return self.word if self.commit.startswith(self.word) else self._with_commit

    @property
    def _with_commit(self) -> str:
        return f"{self.word} ({self.commit[:_SHORT]})"


def resolved(repository: Repository, word: str) -> Revision:
    """What ``word`` names.

    Raises:
        UsageError: nothing, or no commit; the message says what there is.
    """
    if word in WORKING:
        commit = _commit(repository, "HEAD", word)
        changed = repository.git("status", "--porcelain", "--untracked-files=no")
        return Revision(
            word, commit, _branch(repository, "HEAD"), working=True, dirty=bool(changed)
        )
    return Revision(word, _commit(repository, word, word), _branch(repository, word))


def _commit(repository: Repository, name: str, word: str) -> str:
    try:
        return repository.git("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
    except GitError:
        pass
    if name == "HEAD":
        raise UsageError(f"revision {word!r}: {repository.top} has no commit yet")
    raise UsageError(
        f"revision {word!r}: {repository.top} has no commit, tag or branch of that name: expected "
        f"one, or WORKTREE for the files as they stand{_hint(repository)}"
    )


def _hint(repository: Repository) -> str:
    try:
        shallow = repository.git("rev-parse", "--is-shallow-repository") == "true"
    except GitError:
        return ""
    return ". The clone is shallow: git fetch --unshallow brings its history" if shallow else ""


def _branch(repository: Repository, name: str) -> str:
    try:
        full = repository.git(
            "rev-parse", "--symbolic-full-name", "--verify", "--end-of-options", name
        )
    except GitError:  # a hash has no name of its own, and some versions say so by failing
        return ""
    last = full.splitlines()[-1] if full else ""
    return last.removeprefix("refs/heads/") if last.startswith("refs/heads/") else ""
