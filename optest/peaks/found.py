"""What was measured, and what could not be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optest.store.records import Ceiling


@dataclass
class Found:
    """Ceilings, and a line for each thing that is missing or doubtful: what, and why."""

    ceilings: list[Ceiling] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Take over what another part found."""
        self.ceilings += other.ceilings
        self.missing += other.missing
