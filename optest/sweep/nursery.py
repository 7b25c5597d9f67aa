"""The nursery as the parent sees it: a process that has imported torch and forks children.

A fresh interpreter with torch takes two seconds to start, a fork of one 12 ms. The parent itself
imports no torch, starts no GPU runtime and has no child but the nursery.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optest.errors import OptestError
from optest.sweep import wire
from optest.sweep.output import Tail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

_PACKAGE = Path(__file__).parent.parent
_ENDS_WITHIN_S = 10.0
STACKS = signal.SIGUSR2  # a worker answers it with the stacks of its threads


class NurseryError(OptestError, RuntimeError):
    """The nursery could not be started, or is gone."""


@dataclass(frozen=True)
class Home:
    """What a nursery is started from.

    Attributes:
        folder: the one whose ``optest`` it and its children import.
        environment: variables that it has beside, or in the place of, those of this process.
    """

    folder: Path = _PACKAGE.parent
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A child to be forked.

    Attributes:
        kind: worker, collector, script, place or devices: what it does.
        folder: its working folder.
        environment: variables to set, or to remove where None.
        cores: the cores it may use; empty for those of the nursery.
        threads: torch's threads; 0 for as many as torch takes by itself.
        task: what its kind needs to know, as JSON.
    """

    kind: str
    folder: Path
    environment: Mapping[str, str | None] = field(default_factory=dict)
    cores: tuple[int, ...] = ()
    threads: int = 0
    task: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As it goes over the wire."""
        return {
            "kind": self.kind,
            "folder": str(self.folder),
            "environment": dict(self.environment),
            "cores": list(self.cores),
            "threads": self.threads,
            "task": dict(self.task),
        }


class Child:
    """A forked child: what it prints, what it tells, and its end.

    ``pid`` is None until the nursery has told it; ``ended`` holds the wait status once it ended.
    """

    def __init__(self, nursery: Nursery, fds: Mapping[str, int], stacks: int) -> None:
        self.status = wire.LineReader(fds["status"])
        self.output = Tail(fds["output"])
        self.wire = wire.LineReader(fds["wire"])
        self.fault = Tail(fds["fault"])
        self.pid: int | None = None
        self.ended: int | None = None
        self.refused = ""
        self.peak_bytes: int | None = None
        self.stacks = stacks
        self._commands = fds["commands"]
        self._nursery = nursery
        self._closed = False

    def look(self) -> None:
        """Take what the nursery tells of it."""
        for message in self.status.read():
            self.pid = message.get("pid", self.pid)
            self.ended = message.get("ended", self.ended)
            self.peak_bytes = message.get("peak_bytes", self.peak_bytes)
            self.refused = message.get("refused", self.refused)

    @property
    def over(self) -> bool:
        """Whether it ended, or nobody is left who could tell."""
        return self.ended is not None or self.status.ended

    def tell(self, message: wire.Message) -> None:
        """Send it a command.

        Raises:
            OSError: it is gone.
        """
        wire.send(self._commands, message)

    def signal(self, number: int) -> None:
        """Send it a signal; SIGKILL goes to its whole session."""
        if self.pid is not None and not self.over:
            self._nursery.signal(self.pid, number)

    def close(self) -> None:
        """Let go of it. What still runs is killed by the nursery once it ends."""
        if not self._closed:
            self._closed = True
            readers = (self.status.fd, self.output.fd, self.wire.fd, self.fault.fd)
            for fd in (*readers, self._commands):
                os.close(fd)


class Nursery:
    """Starts at once; a context manager that leaves no process behind.

    Args:
        scratch: a folder that the nursery removes at its end, also where the parent was killed.
        home: what it is started from; by default this process's own optest and environment.
    """

    def __init__(self, scratch: Path, home: Home | None = None) -> None:
        home = home or Home()
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._lock = threading.Lock()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - read when the nursery failed
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [
                    *(sys.executable, "-m", "optest.sweep.nursery_process"),
                    *(str(theirs.fileno()), str(scratch)),
                ],
                pass_fds=[theirs.fileno()],
                cwd=home.folder,
                env={**os.environ, **home.environment},
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                start_new_session=True,  # Ctrl-C is the parent's to handle
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def last_words(self) -> str:
        """The last line it printed, where it failed."""
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.poll()}"

    def fork(self, request: Request) -> Child:
        """Fork a child.

        Raises:
            NurseryError: the nursery is gone; the message holds its last words.
        """
        names = ("status", "output", "wire", "fault")
        pipes = {name: wire.pipe() for name in names}
        reading, commands = wire.pipe()
        theirs = [pipes[name][1] for name in names] + [reading]
        stacks = signal.SIGABRT if request.kind == "script" else STACKS
        ours = {name: pipes[name][0] for name in names} | {"commands": commands}
        child = Child(self, ours, stacks)
        try:
            self._send(request.to_dict(), theirs)
        except OSError:
            child.close()
            self._process.wait(_ENDS_WITHIN_S)
            raise NurseryError(f"no process can be started: {self.last_words}") from None
        finally:
            for fd in theirs:
                os.close(fd)
        return child

    def signal(self, pid: int, number: int) -> None:
        """Send a child a signal; through the nursery, which knows whether the number is still its.

        A nursery that is gone has taken its children along.
        """
        with contextlib.suppress(OSError):
            self._send({"signal": number, "pid": pid}, [])

    def _send(self, message: wire.Message, fds: list[int]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            sent = socket.send_fds(self._socket, [line], fds) if fds else 0
            self._socket.sendall(line[sent:])

    def close(self) -> None:
        """End it and all that descends from it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()
