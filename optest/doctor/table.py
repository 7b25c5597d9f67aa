"""What was found as a markdown table, and below it what spoils timings."""

from __future__ import annotations

from collections.abc import Iterable

from optest.doctor.item import SEVERITIES, Item

_TOLD = ("note", "warning", "bad")


def markdown(items: Iterable[Item]) -> str:
    """The table, then a line for each thing that harms, the worst first."""
    from tabulate import tabulate

    items = list(items)
    rows = [(_cell(item.what), _cell(item.found), _mark(item)) for item in items]
    table = tabulate(rows, ["what", "found", ""], tablefmt="pipe", disable_numparse=True)
    told = [item for item in items if item.severity in _TOLD and (item.why or item.mend)]
    told.sort(key=lambda item: SEVERITIES.index(item.severity), reverse=True)
    if not told:
        return f"{table}\n\nNothing here makes timings unreliable.\n"
    return "\n".join([table, "", *map(_line, told), ""])


def _mark(item: Item) -> str:
    return item.severity if item.severity in _TOLD else ""


def _line(item: Item) -> str:
    parts = [f"**{item.severity}**: {item.what}", item.why]
    words = ": ".join(part for part in parts if part)
    return f"- {words}." + (f" To mend: {item.mend}." if item.mend else "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
