"""One row of a table: a dict, as the template expects, that remembers which case it came from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ERROR_COLUMN = "error"


class Row(dict[str, Any]):
    """Arguments and results of one case.

    ``status`` is passed, failed, error, empty (nothing measured), skipped or collected.
    """

    __slots__ = ("__weakref__", "arguments", "case_id", "function", "judged_in", "status")

    def __init__(self, arguments: Mapping[str, Any], *, function: str, case_id: str) -> None:
        super().__init__(arguments)
        self.arguments = tuple(arguments)
        self.function = function
        self.case_id = case_id
        self.status = "skipped"
        self.judged_in = 0

    @property
    def judged(self) -> bool:
        """Whether this process has counted the case; a row that was sent here has it yet to do."""
        return self.judged_in == os.getpid()

    @judged.setter
    def judged(self, yes: bool) -> None:
        self.judged_in = os.getpid() if yes else 0

    @property
    def ran(self) -> bool:
        """Whether the case was run at all, whatever came of it."""
        return self.status not in ("skipped", "collected")
