"""What stands on a command line for a side: a file, or a run of the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from optest.compare import json_lines, pasted, results
from optest.compare.side import Side
from optest.errors import UsageError

if TYPE_CHECKING:
    from optest.store import Store
    from optest.store.records import Run

_LARGEST = 4 << 30  # bytes of a file; a larger one is no table and would not fit into memory


class Sources:
    """Opens the store when the first side asks for it, and not for two files."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open = open_store
        self._store: Store | None = None
        self._runs: dict[str, str] = {}

    def side(self, word: str) -> Side:
        """The side that ``word`` names: a file that is there, else a run.

        Raises:
            UsageError: the file cannot be read as results, or the run was named before.
            StoreError: the store cannot be read, or holds no such run.
        """
        path = Path(word)
        if path.is_file() or path.is_fifo():  # <(git show HEAD:old.md), /dev/stdin
            return of_file(word, path)
        store = self._store_for(word)
        run = store.find(word)
        if run.id in self._runs:
            raise UsageError(
                f"{self._runs[run.id]} and {word} are one run, {run.id}: expected two (optest "
                "runs lists them)"
            )
        self._runs[run.id] = word
        return of_run(store, run)

    def close(self) -> None:
        """Let go of the store."""
        if self._store is not None:
            self._store.close()

    def _store_for(self, word: str) -> Store:
        """The store; ``word`` is what it is opened for, and said where it is not there."""
        if self._store is None:
            try:
                self._store = self._open()
            except UsageError as error:
                what = "a folder, no file" if Path(word).is_dir() and word else "no such file"
                raise UsageError(f"{word or repr(word)}: {what}; as a run: {error}") from None
        return self._store


def of_run(store: Store, run: Run) -> Side:
    """A run of a store."""
    side = results.side(title(run), store.results(run.id), run.facts)
    waiting = run.totals.get("missing", 0)
    notes = [f"run {run.id}: {waiting} of its cases have no result"] if waiting else []
    return replace(side, notes=notes)


def title(run: Run) -> str:
    """A run as a reader calls it."""
    facts = run.facts
    commit = f"commit {facts.commit[:12]}{' (changed)' if facts.dirty else ''}"
    words = [commit if facts.commit else "", facts.branch]
    told = ", ".join(word for word in words if word)
    return f"run {run.id} ({told})" if told else f"run {run.id}"


def of_file(name: str, path: Path) -> Side:
    """A file of JSON lines or of markdown, by its first character.

    Raises:
        UsageError: it cannot be read, or holds neither.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise UsageError(f"{name}: larger than 4 GiB: expected results of one run")
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{name}: it cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: no UTF-8 text (byte {error.start})") from None
    if text.lstrip().startswith("{"):
        return json_lines.side(name, text)
    return pasted.side(name, text)
