"""What a candidate did outside the memory it was given, as findings.

Guard bytes see what was written beside a block, at any time while it was alive. Guard pages
(``OPTEST_GUARD_PAGES=1``) see reads as well, at the first access of each kind on each side.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from optest import dtypes
from optest.guards import memory
from optest.guards.finding import Finding
from optest.log import once
from optest.tensors import tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch

    from optest.guards.memory import Damage, Fault

    _Known = dict[int, torch.Tensor]

_MOST = 4
_SPARSE = 2
_WROTE = "it writes to memory that is not its own: elsewhere that is another tensor, or a crash"
_READ = (
    "it reads memory that is not its own: its result may depend on that, and elsewhere it crashes"
)


def findings(*roots: object) -> list[Finding]:
    """What was written, and under guard pages read, outside of its block since last asked.

    All blocks that are alive are looked at; each of their damages is repaired, and told once.

    Args:
        roots: what the candidate can reach or returned, tensors or anything that holds some, to be
            named in the evidence.
    """
    if memory.allocator() is None:
        once("guard bytes need the allocator of csrc: memory is unguarded here", logging.INFO)
        return []
    damages, faults = memory.damages(), memory.faults()
    if not damages and not faults:
        return []
    known = _by_address(tensors_in(*roots))
    found = [*_of_bytes(damages, known), *_of_pages(faults, known)]
    left_out = len(found) - _MOST
    if left_out > 0:
        last = found[_MOST - 1]
        evidence = f"{last.evidence}; and {left_out} more like these"
        found[_MOST - 1 :] = [Finding(last.guard, evidence, last.meaning)]
    return found


def _of_bytes(damages: list[Damage], known: _Known) -> Iterator[Finding]:
    for damage in damages:
        tensor = known.get(damage.data_ptr)
        near, far = _reach(damage, 1 if tensor is None else tensor.itemsize)
        size = far - near + 1
        amount = f"{size} bytes" if size > 1 else "1 byte"
        if damage.count * _SPARSE < size:
            amount = f"{damage.count} of {size} bytes"
        # What reaches the far end of the guarded zone may go on behind it.
        at_least = "at least " if far >= damage.zone else ""
        where = _place(near, damage.side)
        evidence = f"wrote {at_least}{amount} {where} {_name(tensor, damage.nbytes)}"
        yield Finding("guard bytes", evidence, _WROTE)


def _of_pages(faults: list[Fault], known: _Known) -> Iterator[Finding]:
    for fault in faults:
        is_before = fault.side == "before"
        near = -fault.offset if is_before else fault.offset - fault.nbytes + 1
        where = _place(near, fault.side)
        evidence = f"{fault.access} {where} {_name(known.get(fault.data_ptr), fault.nbytes)}"
        yield Finding("guard page", evidence, _READ if fault.access == "read" else _WROTE)


def _place(near: int, side: str) -> str:
    """Where the nearest byte lies, the ``near``-th on that side."""
    if near == 1:
        return f"right {side}"
    border = "the start of" if side == "before" else "the end of"
    return f"{near - 1} bytes {side} {border}"


def _reach(damage: Damage, size: int) -> tuple[int, int]:
    """The nearest and the farthest byte that changed, counted from the block's border from 1 on.

    Widened to elements of ``size`` bytes: parts of one may have held what was written.
    """
    if damage.side == "before":
        near, far = -damage.last, -damage.first
    else:
        near, far = damage.first - damage.nbytes + 1, damage.last - damage.nbytes + 1
    return (near - 1) // size * size + 1, math.ceil(far / size) * size


def _by_address(tensors: Iterable[torch.Tensor]) -> _Known:
    """The largest tensor of each block, by the block's first byte."""
    known: _Known = {}
    for tensor in sorted(tensors, key=lambda t: t.numel()):
        known[tensor.untyped_storage().data_ptr()] = tensor
    return known


def _name(tensor: torch.Tensor | None, nbytes: int) -> str:
    if tensor is None:
        return f"an allocation of {nbytes} bytes"
    shape = "x".join(map(str, tensor.shape)) or "0-dim"
    name = f"{shape} {dtypes.short_name(tensor.dtype)} tensor"
    if math.prod(tensor.shape) * tensor.itemsize == nbytes:
        return f"a {name} ({nbytes} bytes)"
    return f"an allocation of {nbytes} bytes that holds a {name}"
