"""A wrong or cheating kernel, the test that it is sent to, and the guard that must name it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from subjects.subject import ITERS, Kernel, Subject

CHECK = "check"  # the test's own check catches it
RAISED = "raised"  # the case ends in an error of the check or of the measurement


@dataclass(frozen=True)
class Adversary:
    """One row of the table.

    Attributes:
        name: what it does.
        make: a kernel without a past, for a subject.
        subject: the operator that it pretends to be.
        expected: guards any of which may catch it: a finding of that guard, or CHECK or RAISED.
        mode: check or run.
        beside: an honest candidate runs before it in the same case.
        pages: memory lies between closed pages.
        num_iters: timed calls in run mode.
        tries: how often it may be sent; more than once where nothing but time tells, which a busy
            machine blurs.
        unseen: why no guard sees it, for the few that pass; empty for all others.
    """

    name: str
    make: Callable[[Subject], Kernel]
    subject: Subject
    expected: tuple[str, ...]
    mode: str = "check"
    beside: bool = False
    pages: bool = False
    num_iters: int = ITERS
    tries: int = 1
    unseen: str = ""

    @property
    def id(self) -> str:
        """Unique in the table."""
        return f"{self.name}-{self.subject.name}-{self.mode}"


def each(
    name: str,
    make: Callable[[Subject], Kernel],
    subjects: tuple[Subject, ...],
    *expected: str,
    mode: str = "check",
) -> list[Adversary]:
    """The same trick on several operators."""
    return [Adversary(name, make, subject, expected, mode) for subject in subjects]


def unseen(why: str, *adversaries: Adversary) -> list[Adversary]:
    """The same, as those that get past every guard."""
    return [replace(adversary, unseen=why) for adversary in adversaries]
