"""Two runs that were measured in turn, block by block: what the blocks say changed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from optest.compare.padded import Samples
from optest.compare.statistics import Changes, paired_change
from optest.store.records import RunFacts

BLOCKS = "blocks"  # of a timing: how many of its samples came from each block, in order

Blocks = Sequence[Samples]


def pair_of(facts: RunFacts) -> str:
    """What both runs of one measurement in turn say alike; empty where there is none."""
    told = facts.arguments.get("ab")
    return str(told.get("pair") or "") if isinstance(told, dict) else ""


def split(samples: Samples, counts: Sequence[int]) -> list[Samples]:
    """Samples by block.

    Args:
        samples: of all blocks, in the order made.
        counts: how many each block has, 0 where one has none; nothing is one block.
    """
    ends = np.cumsum([0, *(counts or (len(samples),))]).tolist()
    return [samples[start:end] for start, end in itertools.pairwise(ends)]


def changes(base: Sequence[Blocks], head: Sequence[Blocks]) -> Changes:
    """The change of each measurement, as ``statistics.paired_change`` has it.

    A block that has no time above zero on one of the sides counts on neither. No drift is allowed
    for: in blocks that were made in turn it cancels.

    Args:
        base: the blocks of each measurement.
        head: the same of the other side; as many.
    """
    found = [paired_change(*_both(*pair)) for pair in zip(base, head, strict=True)]
    ratio = np.array([each.ratio for each in found], float)
    known = ratio[np.isfinite(ratio)]
    return Changes(
        ratio,
        np.array([each.low for each in found], float),
        np.array([each.high for each in found], float),
        np.array([each.p for each in found], float),
        drift=0.0,
        scatter=0.0,
        common=float(np.median(known)) if known.size else 1.0,
    )


def _both(base: Blocks, head: Blocks) -> tuple[list[Samples], list[Samples]]:
    pairs = [pair for pair in zip(base, head, strict=False) if all(map(_timed, pair))]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _timed(block: Samples) -> bool:
    return len(block) > 0 and 0.0 < float(np.median(block)) < math.inf
