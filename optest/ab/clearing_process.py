"""Removes a folder and the worktrees in it once nobody holds the other end of standard input.

A process of its own, started by its path: it outlives whatever becomes of the one that made them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_WITHIN_S = 30.0
_GIT_SECONDS = 120


def main(folder: Path) -> None:
    """Read until the end which worktrees there are, a JSON line each; then remove everything."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    told = [json.loads(line) for line in sys.stdin if line.endswith("\n")]
    for top, path in told:
        _git(top, "worktree", "remove", "--force", path)
    _remove(folder)
    for top, path in told:
        if f"worktree {path}" in _git(top, "worktree", "list", "--porcelain").splitlines():
            _git(top, "worktree", "prune")


def _git(top: str, *words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - its words are ours
            ["git", "-C", top, *words],  # noqa: S607 - as a user's shell finds it
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "surrogateescape")


def _remove(folder: Path) -> None:
    """Again and again for a while: processes that are being ended may still write there."""
    latest = time.monotonic() + _WITHIN_S
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists() or time.monotonic() > latest:
            return
        for top, _, _ in os.walk(folder):
            if not Path(top).is_symlink():
                os.chmod(top, 0o700)  # noqa: PTH101 - a test may have made it read-only
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
