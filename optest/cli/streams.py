"""Standard streams as this house needs them: there, of any letters, and no end of a sweep."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_STDERR = 2


def ready() -> None:
    """Make them so.

    What the caller closed is opened on nothing: a pipe would else take its number, which others
    write to. A letter that a stream cannot hold is written by its code. What standard error does
    not take, as its reader or its terminal is gone, is lost: no sweep stops for want of a listener.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            _open(number)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    sys.stderr = _patient(sys.stderr.encoding)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # not where a caller put an object of his own there
            reconfigure(errors="backslashreplace")


def _open(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null == number:
        os.set_inheritable(null, True)
        return
    os.dup2(null, number)
    os.close(null)


class _Patient(io.FileIO):
    """Descriptor that takes everything, whether or not it can be written."""

    def write(self, data: Buffer, /) -> int:
        """Write it, or let it be lost; how much that was."""
        try:
            written: int | None = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written


def _patient(encoding: str) -> io.TextIOWrapper:
    raw = _Patient(_STDERR, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=True
    )
