"""Further sets of arguments, so that a call does not find the data of the one before in a cache."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from optest.tensors import Snapshot, replicate, tensors_in
from optest.units import format_bytes

if TYPE_CHECKING:
    from optest.timing.clock import Arguments

_SHARE_OF_FREE_MEMORY = 0.5
_MOST_SETS = 100
_HELD_PER_SET = 2  # the copy, and what it held, to be given back where a function writes in place


def argument_sets(arguments: Arguments, wanted: int) -> tuple[list[Arguments], list[Snapshot], str]:
    """Up to ``wanted`` sets, the caller's own first; snapshots of the copies; a note where fewer.

    Copies take at most half of the memory that is free. Tensors that a function holds itself, in a
    closure or an attribute, are the same in every set, so nothing is copied for those.
    """
    sets = [arguments]
    tensors = tensors_in(*arguments)
    if wanted <= 1:
        return sets, [], ""
    if not tensors:
        return sets, [], "arguments hold no tensor to rotate"
    nbytes = sum(tensor.nbytes for tensor in tensors) or 1
    room = int(_SHARE_OF_FREE_MEMORY * _free_bytes(tensors[0].device) / (_HELD_PER_SET * nbytes))
    count = max(1, min(wanted, 1 + room))
    sets += [replicate(arguments) for _ in range(count - 1)]
    snapshots = [Snapshot(tensors_in(*copy)) for copy in sets[1:]]
    note = ""
    if count < wanted:
        note = f"{count} argument sets of {format_bytes(nbytes)}, {wanted} do not fit in memory"
    return sets, snapshots, note


def sets_to_fill(arguments: Arguments, cache_bytes: int) -> int:
    """How many sets outgrow a cache twice, so that each is cold when its turn comes again."""
    nbytes = sum(tensor.nbytes for tensor in tensors_in(*arguments))
    return min(_MOST_SETS, 1 + -(-2 * cache_bytes // nbytes)) if nbytes else 1


def _free_bytes(device: torch.device) -> int:
    if device.type != "cpu":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 30
