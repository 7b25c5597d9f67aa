"""JSON lines over descriptors: whole lines out of what arrives in pieces."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1 << 18
_LONGEST_LINE = 256 << 20  # a line that never ends must not fill memory
_PIPE_BYTES = 1 << 20
_LOOKS_FOR_S = 0.0005

Message = dict[str, Any]


class LineReader:
    """Takes what can be read without waiting; gives whole lines."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.ended = False
        self._rest = bytearray()
        os.set_blocking(fd, False)

    def read(self) -> list[Message]:
        """The messages that have arrived whole; ``ended`` is True once there can be no more."""
        found: list[Message] = []
        while chunk := self._chunk():
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                found += parsed(bytes(self._rest + line))
                self._rest.clear()
            self._rest += rest
            if len(self._rest) > _LONGEST_LINE:
                self._rest.clear()
            if len(chunk) < _CHUNK:
                break
        return found

    def _chunk(self) -> bytes:
        try:
            chunk = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            chunk = b""
        self.ended = not chunk
        return chunk


def parsed(line: bytes) -> list[Message]:
    """The message of a line, or none where it is no JSON object: others may have written it."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return [message] if isinstance(message, dict) else []


def commands(fd: int) -> Iterator[Message]:
    """What the parent sends, one message at a time, until it sends no more.

    Between two it is looked for without rest at first: the parent answers within a fraction of a
    millisecond, and to be woken from sleep takes longer than that.
    """
    reader = LineReader(fd)
    while not reader.ended:
        latest = time.perf_counter() + _LOOKS_FOR_S
        while not (found := reader.read()) and not reader.ended:
            if time.perf_counter() >= latest:
                select.select([fd], [], [])
            else:
                os.sched_yield()  # on a machine with no idle core, the parent's turn comes first
        yield from found


def send(fd: int, message: Message) -> None:
    """Write a message as one line.

    Raises:
        OSError: the other side is gone.
    """
    write_all(fd, json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n")


def write_all(fd: int, data: bytes) -> None:
    """Write all of it: a signal may cut a write to a pipe short."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def pipe() -> tuple[int, int]:
    """Read end and write end of a pipe that holds as much as the system lets it."""
    reading, writing = os.pipe()
    size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if size is not None:
        with contextlib.suppress(OSError):  # more than this user's pipes may hold together
            fcntl.fcntl(writing, size, _PIPE_BYTES)
    return reading, writing
