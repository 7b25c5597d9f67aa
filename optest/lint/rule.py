"""A rule: a code, what it asks for and why, and the function that looks for what breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from optest.lint.finding import Hit
from optest.lint.script import Script


@dataclass(frozen=True)
class Rule:
    """One rule of the standard.

    Attributes:
        code: ``OT`` and three digits; the first is the group.
        name: what is wrong, in a few words.
        why: what goes wrong otherwise, and what is not counted.
        bad: a few lines that break it.
        good: the same lines as they should be.
        check: finds the places in a file.
    """

    code: str
    name: str
    why: str
    bad: str
    good: str
    check: Callable[[Script], Iterator[Hit]]
