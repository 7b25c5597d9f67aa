"""Which case of one side is which of the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

from optest.compare.side import Case, Side
from optest.errors import UsageError

_SHOWN = 3
Key = Callable[[Case], Hashable]
Pair = tuple["Case | None", "Case | None"]


def pairs(base: Side, head: Side) -> list[Pair]:
    """Cases of both sides, in the order of head; what only base has comes last.

    Two runs agree by the case's id, and by the op test's folder where two files are called alike.
    A pasted table knows no ids: its title and arguments decide, and where titles do not agree at
    all, the arguments alone.

    Raises:
        UsageError: nothing tells the cases of a side apart.
    """
    key = _key(base, head)
    if _nodes(base, head):
        key = _at_node(key)
    found = [{key(case): case for case in side.cases} for side in (base, head)]
    for side, cases in zip((base, head), found, strict=True):
        if len(cases) < len(side.cases):
            _refuse(side, key)
    before, after = found
    matched: list[Pair] = [(before.get(each), case) for each, case in after.items()]
    return matched + [(case, None) for each, case in before.items() if each not in after]


def _nodes(base: Side, head: Side) -> bool:
    """Whether kinds of nodes tell cases apart; where each side has one, they are the sides'."""
    return any(len({case.where for case in side.cases}) > 1 for side in (base, head))


def _key(base: Side, head: Side) -> Key:
    if not (base.pasted or head.pasted):
        return _by_id if _tells_apart(_by_id, base, head) else _by_file
    return _by_table if _overlap(_by_table, base, head) else _by_arguments


def _by_id(case: Case) -> Hashable:
    return case.id


def _by_file(case: Case) -> Hashable:
    return case.file, case.id


def _by_table(case: Case) -> Hashable:
    return case.table, tuple(case.arguments.items())


def _by_arguments(case: Case) -> Hashable:
    return tuple(case.arguments.items())


def _at_node(key: Key) -> Key:
    return lambda case: (key(case), case.where)


def _overlap(key: Key, base: Side, head: Side) -> bool:
    return bool({*map(key, base.cases)} & {*map(key, head.cases)})


def _tells_apart(key: Key, *sides: Side) -> bool:
    key = _at_node(key)
    return all(len({*map(key, side.cases)}) == len(side.cases) for side in sides)


def _refuse(side: Side, key: Key) -> None:
    counts = Counter(map(key, side.cases))
    twice = [case.id for case in side.cases if counts[key(case)] > 1]
    raise UsageError(
        f"{side.name}: {len(twice)} cases cannot be told apart by what both sides say of them "
        f"({', '.join(twice[:_SHOWN])}, …)"
    )
