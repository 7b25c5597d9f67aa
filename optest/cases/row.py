"""One row of a table: a dict, as the template expects, that remembers which case it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ERROR_COLUMN = "error"


class Row(dict[str, Any]):
    """Arguments and results of one case.

    ``status`` is passed, failed, error, empty (nothing measured), skipped or collected.
    """

    __slots__ = ("__weakref__", "arguments", "case_id", "function", "status")

    def __init__(self, arguments: Mapping[str, Any], *, function: str, case_id: str) -> None:
        super().__init__(arguments)
        self.arguments = tuple(arguments)
        self.function = function
        self.case_id = case_id
        self.status = "skipped"

    @property
    def ran(self) -> bool:
        """Whether the case was run at all, whatever came of it."""
        return self.status not in ("skipped", "collected")
