"""A task that replaces a clock, a comparison or the harness's own functions gets no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.errors import RefusedError
from optest.guards import patched

if TYPE_CHECKING:
    from optest.guards.finding import Finding


def check() -> None:
    """Look at Python's clocks; quick enough to be done before every timed call.

    Raises:
        RefusedError: one is not what Python came with; the message names it and what replaced it.
    """
    _refuse(patched.clock())


def check_all() -> None:
    """Look at the device's clocks and at the harness's own functions as well.

    Raises:
        RefusedError: one of them comes from another file than its own.
    """
    _refuse(patched.everything())


def _refuse(finding: Finding | None) -> None:
    if finding is not None:
        raise RefusedError(f"{finding.evidence}: no time can be taken")
