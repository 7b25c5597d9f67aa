"""The event sink: one JSON line for each thing that happened, written when it happens."""

from __future__ import annotations

import errno
import json
import math
import os
import time
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

from optest.cases import text
from optest.checking import Verdict
from optest.errors import SettingError
from optest.log import logger
from optest.timing import Timing

if TYPE_CHECKING:
    from pathlib import Path

_AS_THEY_ARE = (str, int, bool, type(None))
_to_json = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, default=text.of_value
).encode
_DEEPEST = 12  # a list that holds itself has no end


class Events:
    """Appends lines to a file; each is one write, so that child processes may share the file.

    ``failed`` is True once a line could not be written: the file does not hold all that happened.
    """

    def __init__(self, path: Path) -> None:
        self.failed = False
        self._path = path
        self._torn = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            message = f"OPTEST_EVENTS={str(path)!r}: expected a file that can be appended to"
            raise SettingError(f"{message} ({error.strerror}).") from None
        weakref.finalize(self, os.close, self._file).atexit = False

    def write(self, event: str, **fields: object) -> None:
        """Append ``{"event": …, "time": …, "pid": …, …}``; a full disk stops no run."""
        record = {"event": event, "time": time.time(), "pid": os.getpid(), **fields}
        line = encoded(record)
        try:
            self._append(line)
        except OSError as error:
            if not self.failed:
                logger.error(
                    "OPTEST_EVENTS=%s: could not be written (%s): events are missing from it",
                    self._path,
                    error.strerror,
                )
            self.failed = True

    def _append(self, line: bytes) -> None:
        if self._torn:  # end the line that a full disk cut off
            line = b"\n" + line
        written = os.write(self._file, line)
        self._torn = 0 < written < len(line)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def encoded(record: Mapping[str, object]) -> bytes:
    """A line of JSON."""
    return (_to_json(plain(record)) + "\n").encode("utf-8", "replace")


def plain(value: object, depth: int = 0) -> object:  # noqa: PLR0911 - one line a kind
    """``value`` as JSON can hold it: results whole, NaN and infinities as None or text."""
    if type(value) in _AS_THEY_ARE:  # as nearly always
        return value
    if isinstance(value, (Timing, Verdict)):
        return value.to_dict()  # made of JSON's own types already
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    if depth < _DEEPEST and isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if depth < _DEEPEST and isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    return text.of_value(value)


def _number(value: float) -> object:
    return None if math.isnan(value) else (float(value) if math.isfinite(value) else str(value))
