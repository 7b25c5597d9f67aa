#!/usr/bin/env python3
"""How close csrc comes to the memory's limit and to torch, beyond the last-level cache.

Each operator is timed in rounds with a copy, torch.compile and torch eager beside it; ratios are
taken within a round, so that a slow moment hits both sides, and their median is judged. All write
into memory that exists already, also what torch allocates: fresh pages would cost more than the
kernels. Beside the share of the copy stands the bound that instructions set to it: those of a small
input are counted, and held against what the processor takes of their kind at most. Exits 1 below
a bar.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch
from bars import at_least
from kernels import (
    activation,
    cache,
    choice,
    decode,
    experts,
    gemm_quant,
    instructions,
    memory,
    mx,
    norm,
    norm_quant,
    quant,
    rotary,
    routing,
    states,
    table,
)
from kernels.course import timed

FAMILIES = (
    quant,
    norm,
    norm_quant,
    activation,
    rotary,
    decode,
    states,
    cache,
    gemm_quant,
    mx,
    experts,
    routing,
    choice,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=at_least(1), default=9, help="rounds an operator (default 9)"
    )
    parser.add_argument(
        "--mib", type=at_least(1), default=512, help="MiB of each input (default 512)"
    )
    parser.add_argument("--only", default="", help="operators whose name holds this text")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="one thread, by the time it computed: for machines whose cores others use too",
    )
    args = parser.parse_args()
    clock = time.process_time if args.cpu_time else time.perf_counter
    if args.cpu_time:
        torch.set_num_threads(1)
    memory.keep_freed_memory()
    copy_bytes, copy_calls = memory.copies(args.mib)
    counting = instructions.operators()
    at_most: tuple[float, ...] = ()
    print(table.head())
    all_passed = True
    for family in FAMILIES:
        for name, make in family.contests(args.mib).items():
            if args.only not in name:
                continue
            contest = make()
            times = timed(contest, copy_calls, args.rounds, clock)
            bound = None
            if counting is not None:
                at_most = instructions.peaks(counting, at_most)
                bound = instructions.bound(counting, family.contests(1)[name], at_most)
            line, passed = table.line(name, contest, times, copy_bytes, bound)
            all_passed = all_passed and passed
            print(line, flush=True)
            torch.compiler.reset()
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
