"""In a worker: threads and processes that a case left running."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path

from optest.sweep import processes

_GRACE_S = 0.05  # for one that is on its way out
# Pools that libraries keep for the next call; they rest between calls.
_KEPT_PROCESSES = ("torch/_inductor", "multiprocessing.resource_tracker", "compile_worker")
_KEPT_THREADS = (f"{os.sep}torch{os.sep}", f"{os.sep}triton{os.sep}")
_IDLE = f"concurrent{os.sep}futures{os.sep}thread.py"
_OURS = "optest.sweep.nursery_process"
_LONGEST_NAME = 200


class AtWork:
    """Who was there before a case, so that who came with it is known after it."""

    def __init__(self) -> None:
        self._threads: set[threading.Thread] = set()
        self._children: set[int] = set()

    def before(self) -> None:
        """A case starts."""
        self._threads = set(threading.enumerate())
        self._children = set(processes.own_children())

    def after(self) -> tuple[list[str], bool]:
        """Who still runs, and whether nobody does: nobody can stop a thread, so both cost it."""
        latest = time.monotonic() + _GRACE_S
        while (found := self._running()) and time.monotonic() < latest:
            time.sleep(0.002)
        return found, not found

    def _running(self) -> list[str]:
        new = [t for t in threading.enumerate() if t not in self._threads and not _rests(t)]
        left = [f"thread {thread.name[:_LONGEST_NAME]}" for thread in new]
        commands = self._commands()
        if ending := {pid for pid, command in commands.items() if not command}:
            # What it leaves behind in turn is seen once it is gone.
            _wait_for(ending)
            commands = self._commands()
        return left + [_name(command) for command in commands.values()]

    def _commands(self) -> dict[int, str]:
        started = set(processes.own_children()) - self._children
        commands = {pid: _command(pid) for pid in started}
        return {
            pid: command
            for pid, command in commands.items()
            if not any(part in command for part in _KEPT_PROCESSES)
        }


def _wait_for(ending: set[int]) -> None:
    latest = time.monotonic() + _GRACE_S
    for pid in ending:
        with contextlib.suppress(OSError):
            while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < latest:
                time.sleep(0.001)


def _rests(thread: threading.Thread) -> bool:
    """Whether it waits for work in a pool, or belongs to a library that keeps it."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - the only way to see
    if frame is None:
        return not thread.is_alive()
    if frame.f_code.co_filename.endswith(_IDLE):
        return True
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _KEPT_THREADS):
            return True
        frame = frame.f_back
    return False


def _command(pid: int) -> str:
    """The command line of a process; empty where it is ending or gone."""
    words = b""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    return words.replace(b"\0", b" ").decode("utf-8", "replace").strip()


def _name(command: str) -> str:
    if not command or _OURS in command:
        return "forked process"
    return f"process {command[:_LONGEST_NAME]}"
