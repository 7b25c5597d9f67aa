"""Which process works on a run: two that went on with the same would run every case twice."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from optest.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Self


class Claim:
    """Holds a run for this process until it ends, however it ends; of this machine alone.

    A record lock: it is no child's, and the system lets go of it when the process is killed.
    """

    def __init__(self, store: str, run: str) -> None:
        digest = hashlib.sha256(f"{store} {run}".encode()).hexdigest()[:16]
        self._run = run
        self._path = _folder() / f"{digest}.lock"
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        """Take it.

        Raises:
            UsageError: another process has it; the message names that.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # no folder for it: a run that cannot be claimed can still be run
            return self
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise UsageError(
                f"run {self._run}: process {holder} is at work on it: let it finish, or end it"
            ) from None
        os.truncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._descriptor = descriptor
        return self

    def __exit__(self, *exception: object) -> None:
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)


def is_taken(store: str, run: str) -> bool:
    """Whether another process of this machine is at work on the run."""
    try:
        with Claim(store, run):
            return False
    except UsageError:
        return True


def _folder() -> Path:
    path = Path(tempfile.gettempdir()) / f"optest-runs-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        ours = path.stat().st_uid == os.getuid() and not path.is_symlink()
    except OSError:
        ours = False
    return path if ours else Path(os.devnull)
