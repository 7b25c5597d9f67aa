"""The nursery: imports torch once, runs no operation of it, and forks children on request.

It adopts what its children leave behind and ends it; when its parent is gone it ends everything.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from optest.sweep import processes, wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FDS = ("status", "output", "wire", "fault", "commands")
_LOOKS_EVERY_S = 1.0
_CLEARS_WITHIN_S = 5.0
_CHUNK = 1 << 16


class NurseryProcess:
    """The loop: requests from the socket, ends of children from the system."""

    def __init__(self, connection: socket.socket, run: Callable[..., None]) -> None:
        self._connection = connection
        self._run = run
        self._parent = os.getppid()
        self._children: dict[int, int] = {}  # process id -> where its end is told
        self._bytes = bytearray()
        self._fds: list[int] = []
        self._wake, self._woken = socket.socketpair()
        for end in (self._wake, self._woken):
            end.setblocking(False)
        # Not select(): a parent with many files open hands its socket down by a number above 1023.
        self._watched = selectors.DefaultSelector()
        for end in (self._connection, self._wake):
            self._watched.register(end, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Fork and reap until the parent is gone; then leave no descendant."""
        open_ = True
        while open_ and os.getppid() == self._parent:
            ready = [key.fileobj for key, _ in self._watched.select(_LOOKS_EVERY_S)]
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    self._wake.recv(_CHUNK)
            self._reap()
            if self._connection in ready:
                open_ = self._receive()
        for pid in self._children:
            _kill_session(pid)
        self._children.clear()
        self._end_orphans()

    def _receive(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._connection, _CHUNK, 64)
        except OSError:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
        self._bytes += data
        self._fds += fds
        *lines, rest = bytes(self._bytes).split(b"\n")
        self._bytes = bytearray(rest)
        for line in lines:
            self._act(json.loads(line))
        return bool(data)

    def _act(self, message: dict[str, Any]) -> None:
        if "signal" in message:
            if message["pid"] in self._children:
                _signal(message["pid"], message["signal"])
            return
        fds = dict(zip(FDS, self._fds, strict=False))
        del self._fds[: len(FDS)]
        self._fork(message, fds)

    def _fork(self, request: dict[str, Any], fds: dict[str, int]) -> None:
        status = fds.pop("status")
        try:
            pid = os.fork()
        except OSError as error:
            _tell(status, {"refused": f"no process could be forked ({error.strerror})"})
            os.close(status)
            pid = -1
        if pid == 0:
            self._become(request, fds, status)
        for fd in fds.values():
            os.close(fd)
        if pid > 0:
            self._children[pid] = status
            if not _tell(status, {"pid": pid}):
                _signal(pid, signal.SIGKILL)

    def _become(self, request: dict[str, Any], fds: dict[str, int], status: int) -> None:
        """In the child: let go of what is the nursery's, and run; it never returns."""
        leave = os._exit
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for end in (self._watched, self._connection, self._wake, self._woken):
                end.close()
            for fd in (status, *self._children.values(), *self._fds):
                os.close(fd)
            self._run(request, fds)
        finally:
            leave(1)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            told = self._children.pop(pid, None)
            if told is None:
                continue
            _kill_session(pid)
            self._end_orphans()
            unit = 1 if sys.platform == "darwin" else 1 << 10
            _tell(told, {"ended": status, "peak_bytes": usage.ru_maxrss * unit})
            os.close(told)

    def _end_orphans(self) -> None:
        """End what is a child here without having been asked for: left by children that ended."""
        latest = time.monotonic() + _CLEARS_WITHIN_S
        while orphans := self._orphans():
            for pid in orphans:
                _kill(processes.family(pid))
            if time.monotonic() > latest:  # stuck in the kernel: it ends when that lets it
                return
            for pid in orphans:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)

    def _orphans(self) -> list[int]:
        return [pid for pid in processes.children(os.getpid()) if pid not in self._children]


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _kill_session(pid: int) -> None:
    # Its first process may have ended, its group has not: one call that no fork escapes.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    if number == signal.SIGKILL:
        _kill_session(pid)
        _kill([pid])  # one that has not yet come to make its session
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _tell(fd: int, message: dict[str, Any]) -> bool:
    """Whether somebody listens."""
    try:
        wire.send(fd, message)
    except OSError:
        return False
    return True


def main(descriptor: int, scratch: str) -> None:
    """Serve the connection at ``descriptor``; remove the folder ``scratch`` at the end."""
    # As a script has it: our own folder is not the first in which modules are looked for.
    sys.path.append(sys.path.pop(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.adopt_orphans()
    try:
        from optest.sweep import child

        child.import_what_is_shared()
        gc.collect()
        gc.freeze()  # collecting in a child would copy the pages that it shares
        with socket.socket(fileno=descriptor) as connection:
            NurseryProcess(connection, child.run).serve()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
