"""In a child: the cases of one op test, found and told without running one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from optest.cases import case as cases
from optest.cases import collecting, text
from optest.cases.events import plain
from optest.errors import UsageError
from optest.line import escaped
from optest.sweep import wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optest.cases.collecting import Found
    from optest.cases.session import Collected

_AT_A_TIME = 500
_LONGEST_REASON = 2_000


def find(task: Mapping[str, Any], out: int) -> Found | None:
    """Import and collect a script; tell how far it came, so that a death says where.

    Returns None where it cannot be run at all; the reason is told.
    """
    wire.send(out, {"event": "importing"})
    path = Path(task["file"])
    try:
        module = collecting.load(path, alone=True)
        argv = task["argv"]
        argv = collecting.smoke_arguments(module) if argv is None else argv
    except UsageError as error:
        _tell_fault(out, str(error))
        return None
    except KeyboardInterrupt:  # raised by the script: Ctrl-C is the parent's alone
        _tell_fault(out, f"{path}: it cannot be imported (KeyboardInterrupt).")
        return None
    if not collecting.has_cases(module):
        _tell_fault(out, f"{path}: no op test: expected main() and functions under @benchmark().")
        return None
    wire.send(out, {"event": "collecting"})
    return collecting.collect(module, argv)


def _tell_fault(out: int, reason: str) -> None:
    reason = escaped(reason[:_LONGEST_REASON])
    wire.send(out, {"event": "fault", "reason": reason})


def run(task: Mapping[str, Any], fds: Mapping[str, int]) -> None:
    """Find the cases of ``task["file"]`` and tell each."""
    out = fds["wire"]
    found = find(task, out)
    if found is None:
        return
    for start in range(0, len(found.cases), _AT_A_TIME):
        some = found.cases[start : start + _AT_A_TIME]
        wire.send(out, {"event": "cases", "cases": _told(some, found.tables)})
    wire.send(out, {"event": "collected", "gated": found.gated, "whole": found.whole})


def _told(some: Sequence[Collected], tables: Mapping[str, str]) -> list[list[object]]:
    return [
        [
            each.id,
            getattr(each.function, "__name__", ""),
            {name: plain(text.cell(value)) for name, value in cases.shown(each.arguments).items()},
            tables.get(each.id, ""),
        ]
        for each in some
    ]
