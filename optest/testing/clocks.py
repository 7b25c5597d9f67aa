"""A task that replaces a clock, a comparison or the harness's own functions gets no time.

pytest imports this when it starts: the clocks are looked up before any task's file is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.errors import RefusedError
from optest.guards import clocks

if TYPE_CHECKING:
    from optest.guards.finding import Finding


def check() -> None:
    """Look at Python's clocks; quick enough to be done before every timed call.

    Raises:
        RefusedError: one is not what Python came with; the message names it and what replaced it.
    """
    _refuse(clocks.finding())


def check_all() -> None:
    """Look at the device's clocks and at the harness's own functions as well.

    Raises:
        RefusedError: one of them comes from another file than its own.
    """
    from optest.guards import patched  # imports torch

    _refuse(patched.everything())


def _refuse(finding: Finding | None) -> None:
    if finding is not None:
        raise RefusedError(f"{finding.evidence}: no time can be taken")
