"""Files that are never seen half-written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from optest.errors import UsageError

_MODE = 0o666


def write(option: str, path: Path, text: str) -> None:
    """Put ``text`` in the place of what stands at ``path``, whole or not at all.

    Args:
        option: that named the file, for the message.
        path: its folder is made where it is not there.
        text: is written as UTF-8; what that cannot hold, by its code.

    Raises:
        UsageError: it cannot be written; what stood there still does.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # /dev/stdout, a pipe: there is nothing to replace
            path.write_text(text, "utf-8", "backslashreplace")
        else:
            _replace(path, text)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"{option} {path}: it cannot be written ({reason})") from None


def _replace(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _MODE & ~_umask())  # noqa: PTH101 - mkstemp's is for its owner alone
        os.replace(name, path)  # noqa: PTH105 - both are names here
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - the same
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
