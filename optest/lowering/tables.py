"""The markdown of a run: a row for each kernel and card, what failed, what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from optest.lowering.record import Record

_NUMBERS = {
    "registers": "registers",
    "accumulation": "AGPR",
    "scalar": "SGPR",
    "spills": "spills",
    "shared_bytes": "shared B",
    "warps": "warps",
    "occupancy": "occupancy",
    "code_bytes": "code B",
}
_COMPARED = ("registers", "spills", "shared_bytes", "code_bytes")
_HEAD = ("kernel", "target", "specialisations", *_NUMBERS.values(), "compile s", "result")


def kernels(record: Record) -> str:
    """One row a kernel and card; where its specialisations differ, the least and the most."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in record.kernels:
        groups.setdefault((entry["kernel"], entry["target"]), []).append(entry)
    ordered = sorted(groups.items(), key=lambda item: item[0][0])
    return _table(_HEAD, (_row(name, target, each) for (name, target), each in ordered))


def failures(record: Record) -> str:
    """What does not lower or does not fit, with the compiler's words."""
    parts = []
    for entry in record.failed:
        words = entry.get("error") or "exceeds the card: " + "; ".join(entry["excess"])
        head = f"**{short(entry['kernel'])} for {entry['target']}**"
        parts.append(
            f"{head}, launched by {entry['case']}\n"
            f"specialisation: {entry['specialisation']}\n\n"
            + "\n".join(f"    {line}" for line in words.strip().splitlines())
            + "\n"
        )
    return "\n".join(parts)


def changes(before: Record, now: Record) -> str:
    """What is new, gone or different in registers, spills, shared memory or code."""
    old, new = _by_identity(before), _by_identity(now)
    rows: list[Sequence[str]] = []
    for identity in sorted({*old, *new}):
        kernel, target, specialisation = identity
        lead = (short(kernel), target, specialisation)
        if identity not in new:
            rows.append((*lead, "gone", "", ""))
        elif identity not in old:
            rows.append((*lead, "new", "", _result([new[identity]])))
        else:
            rows += [(*lead, *each) for each in _differences(old[identity], new[identity])]
    if not rows:
        return f"Nothing changed since {before.when}.\n"
    head = ("kernel", "target", "specialisation", "what", "before", "now")
    return f"Changed since {before.when}:\n\n{_table(head, rows)}"


def short(kernel: str) -> str:
    """``quant.static_kernel`` of ``optest.ops.triton.quant.static_kernel``."""
    return ".".join(kernel.split(".")[-2:])


def _row(kernel: str, target: str, entries: list[dict[str, Any]]) -> list[str]:
    numbers = [_range(entry.get(name) for entry in entries) for name in _NUMBERS]
    seconds = sum(entry.get("seconds", 0.0) for entry in entries)
    return [
        short(kernel), target, str(len(entries)), *numbers, f"{seconds:.1f}", _result(entries),
    ]  # fmt: skip


def _range(values: Iterable[int | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    return str(known[0]) if min(known) == max(known) else f"{min(known)}..{max(known)}"


def _result(entries: list[dict[str, Any]]) -> str:
    refused = sum("error" in entry for entry in entries)
    too_large = sum(bool(entry.get("excess")) for entry in entries)
    words = []
    if refused:
        words.append(f"{refused} do not lower" if len(entries) > 1 else "does not lower")
    if too_large:
        words.append(f"{too_large} do not fit" if len(entries) > 1 else "does not fit")
    return ", ".join(words) or "ok"


def _by_identity(record: Record) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {
        (entry["kernel"], entry["target"], entry["specialisation"]): entry
        for entry in record.kernels
    }


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str, str]]:
    results = _result([old]), _result([new])
    found = [] if results[0] == results[1] else [("result", *results)]
    for name in _COMPARED:
        before, now = old.get(name), new.get(name)
        if before != now and before is not None and now is not None:
            found.append((_NUMBERS[name], str(before), str(now)))
    return found


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )
