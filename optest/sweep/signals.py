"""Ctrl-C, SIGTERM, a closed terminal: the first stops a sweep cleanly, a second one at once."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from optest.sweep.sweep_outcome import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from typing_extensions import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOPPING = b"\noptest: stopping what runs; once more to end at once\n"
_STDERR = 2
_SHOW_CURSOR = b"\x1b[?25h\n"


class Stop:
    """Holds the signals while a sweep lasts; usable in the main thread alone.

    The first raises KeyboardInterrupt, unless ``listen`` says otherwise. What it is given is called
    before, and must bear to be called between any two instructions.
    """

    def __init__(self) -> None:
        self.asked = False
        self._first: Callable[[], None] = _nothing
        self._raises = True
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for each in _SIGNALS:
            if each == signal.SIGHUP and signal.getsignal(each) == signal.SIG_IGN:
                continue  # under nohup it outlives its terminal
            self._before[each] = signal.signal(each, self._handle)
        return self

    def __exit__(self, *_exception: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)  # type: ignore[arg-type]  # as signal() gave it

    def listen(self, first: Callable[[], None], *, raises: bool) -> None:
        """What the first signal does from now on, and whether it also raises KeyboardInterrupt."""
        self._first, self._raises = first, raises

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGHUP:
            return  # the system tells of a closed terminal, and so does the shell
        if self.asked:
            # Nothing of this process may stand in the way, its own tidying included. What it
            # started ends with it.
            if os.isatty(_STDERR):
                _write(_SHOW_CURSOR)
            os._exit(INTERRUPTED)
        self.asked = True
        _write(_STOPPING)
        self._first()
        if self._raises:
            raise KeyboardInterrupt


def _nothing() -> None: ...


def _write(words: bytes) -> None:
    # Not through sys.stderr: the signal may have come in the middle of a write to it.
    with contextlib.suppress(OSError):
        os.write(_STDERR, words)
