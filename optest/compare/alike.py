"""Whether two sides were measured alike: machine, card, settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from optest.compare.side import Cell, Side

# Of no meaning for a time.
_INDIFFERENT = ("OPTEST_ONLY", "OPTEST_SEED")


def differences(base: Side, head: Side) -> list[str]:
    """What makes the times of both no measure of the code; one line each, empty where nothing.

    What a side does not say, as a pasted table says nothing of its machine, is no difference.
    """
    out = []
    for what in ("gfx", "device", "host"):
        pair = [
            sorted({str(getattr(place, what)) for place in side.places} - {""})
            for side in (base, head)
        ]
        if all(pair) and pair[0] != pair[1]:
            out.append(_line(what, *(", ".join(each) for each in pair)))
    if base.settings and head.settings:
        out += _of(base.settings, head.settings, "not set")
    return out


def remarks(base: Side, head: Side) -> list[str]:
    """What differs and may be meant: versions. Of a side that ran nothing, nothing is known."""
    if not (base.versions and head.versions and base.places and head.places):
        return []
    return _of(base.versions, head.versions, "none")


def of_cells(base: Cell, head: Cell) -> list[str]:
    """What makes two times no measure of one candidate: clocks, cold or warm caches."""
    if base.clock == head.clock and base.cache == head.cache:
        return []
    pairs = [("clock", base.clock, head.clock), ("cache", base.cache, head.cache)]
    return [_line(what, *both) for what, *both in pairs if all(both) and both[0] != both[1]]


def _of(base: Mapping[str, str], head: Mapping[str, str], nothing: str) -> list[str]:
    names: Iterable[str] = dict.fromkeys([*base, *head])
    return [
        _line(name, base.get(name, nothing), head.get(name, nothing))
        for name in names
        if name not in _INDIFFERENT and base.get(name) != head.get(name)
    ]


def _line(what: str, base: str, head: str) -> str:
    return f"{what}: {base}, then {head}"
