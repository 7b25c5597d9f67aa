"""The logger of the house: to standard error, so that standard output holds the tables alone."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TextIO

from optest import settings
from optest.errors import SettingError


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to whatever ``sys.stderr`` is now: captured and replaced streams are honoured."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _value: TextIO) -> None: ...


_PACKAGE = Path(__file__).parent


class WarningCount(logging.Handler):
    """Counts warnings: a script that was gated away gave one, a script that ran nothing did not."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count a script's warning; errors are another matter, and so is what optest says."""
        ours = Path(record.pathname).is_relative_to(_PACKAGE)
        if record.levelno == logging.WARNING and not ours:
            self.count += 1


def set_level(target: logging.Logger) -> None:
    """Apply ``OPTEST_LOG_LEVEL``; a bad value is reported by the session, not by an import."""
    try:
        target.setLevel(settings.get_str("OPTEST_LOG_LEVEL"))
    except SettingError:
        target.setLevel(logging.INFO)


def _make() -> logging.Logger:
    made = logging.getLogger("optest")
    set_level(made)
    handler = _CurrentStderr()
    handler.setFormatter(logging.Formatter("[optest] %(levelname)s: %(message)s"))
    made.addHandler(handler)
    made.addHandler(warning_count)
    made.propagate = False
    return made


warning_count = WarningCount()
logger = _make()
_said: set[str] = set()


def once(message: str, level: int = logging.WARNING) -> None:
    """Log ``message`` the first time this process says it."""
    if message not in _said:
        _said.add(message)
        logger.log(level, message)
