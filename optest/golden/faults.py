"""What ends a run with an error in its result, in place of an exception."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from optest.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stopped(Exception):  # noqa: N818 - not an error of its own: it carries one to the result
    """The run ends here; the text is its result's ``error``."""


class Mismatched(Stopped):
    """It ends because a check failed, which the session has been told already."""


@contextmanager
def setting_up() -> Iterator[None]:
    """Turn a ValueError, or a compiler's refusal, into the end of the run.

    Around what optest itself does with the caller's arguments; what a kernel or a golden function
    raises is the caller's to see.
    """
    try:
        yield
    except (ValueError, BuildError) as error:
        raise Stopped(str(error) or type(error).__name__) from error


@contextmanager
def ending_on(*kinds: type[Exception]) -> Iterator[None]:
    """Turn an exception of these kinds, which optest raises of a kernel, into the run's end."""
    try:
        yield
    except kinds as error:
        raise Stopped(str(error)) from error
