"""The errors that optest raises on purpose: each names the value, what was expected, what to do."""

from __future__ import annotations


class OptestError(Exception):
    """Base of every error that optest raises on purpose."""


class SettingError(OptestError, ValueError):
    """An environment variable holds a value that its row in the settings table does not allow."""


class UsageError(OptestError, ValueError):
    """A call or a command line that cannot be honoured as it stands."""


class BuildError(OptestError, RuntimeError):
    """A compiler refused a source file; the message carries its words and the command."""


class ClockError(OptestError, RuntimeError):
    """A clock gave readings that no kernel can have: zero, negative, or the same for every call."""


class RefusedError(OptestError, RuntimeError):
    """A measurement whose number would not be the kernel's: memoised, not launched, miscounted."""


class MemoisedError(RefusedError):
    """A kernel that gives its answers from memory, or does not look at its inputs."""


class CheckFailedError(OptestError, AssertionError):
    """A comparison failed where the caller asked for an exception (``assertAllclose``)."""


class StoreError(UsageError):
    """A database that cannot be opened, read or written as it stands."""
