"""The event sink: one JSON line for each thing that happened, written when it happens."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from optest.cases import text
from optest.errors import SettingError

if TYPE_CHECKING:
    from pathlib import Path


class Events:
    """Appends lines to a file; each is one write, so that child processes may share the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            message = f"OPTEST_EVENTS={str(path)!r}: expected a file that can be appended to"
            raise SettingError(f"{message} ({error.strerror}).") from None

    def write(self, event: str, **fields: object) -> None:
        """Append ``{"event": …, "time": …, "pid": …, …}``."""
        record = {"event": event, "time": time.time(), "pid": os.getpid(), **fields}
        line = json.dumps(plain(record), ensure_ascii=False, allow_nan=False) + "\n"
        os.write(self._file, line.encode("utf-8", "replace"))


def plain(value: object) -> object:  # noqa: PLR0911 - one line a kind
    """``value`` as JSON can hold it: results whole, NaN and infinities as None or text."""
    to_dict = getattr(value, "to_dict", None)
    if isinstance(value, float) and callable(to_dict):
        return plain(to_dict())
    if isinstance(value, float):
        return None if math.isnan(value) else (float(value) if math.isfinite(value) else str(value))
    if isinstance(value, (bool, type(None))):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return text.of_value(value)
