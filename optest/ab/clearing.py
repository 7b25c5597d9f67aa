"""A temporary folder for worktrees that is gone afterwards, whatever becomes of this process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from optest.ab import repository
from optest.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Self

_SCRIPT = Path(__file__).with_name("clearing_process.py")
_WITHIN_S = 180.0


class Clearing:
    """The folder; a context manager.

    Another process removes it, and tells git that its worktrees are gone, when this one lets go:
    by leaving the context, by any fault, by a signal that nothing can catch.
    """

    def __enter__(self) -> Self:
        """Make it.

        Raises:
            UsageError: there is no room for temporary files.
        """
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="optest-ab-")).resolve()
        except OSError as error:
            raise UsageError(
                f"no temporary folder can be made ({error}): TMPDIR names another"
            ) from None
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-I", "-S", str(_SCRIPT), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=repository.environment(),
            start_new_session=True,  # Ctrl-C in a terminal is not for it
        )
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_WITHIN_S)

    def worktree(self, top: Path, path: Path) -> None:
        """Say, before it is made, that ``path`` is to be a worktree of the repository at ``top``.

        Raises:
            OSError: the other process is gone.
        """
        assert self._process.stdin is not None
        line = json.dumps([str(top), str(path)]) + "\n"
        self._process.stdin.write(line.encode("utf-8", "surrogateescape"))
        self._process.stdin.flush()
