"""What an adversary does to the process, put back when its test ends."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_later = ExitStack()
_MISSING = object()


def later(action: Callable[[], object]) -> None:
    """Do this at the end of the test; the last said is the first done."""
    _later.callback(action)


def replace(owner: object, name: str, value: object) -> None:
    """Set an attribute until the end of the test; one that a base class had is deleted again."""
    before = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    if before is _MISSING:
        later(lambda: vars(owner).get(name, _MISSING) is _MISSING or delattr(owner, name))
    else:
        later(lambda: setattr(owner, name, before))


def everything() -> None:
    """Put everything back."""
    _later.close()
