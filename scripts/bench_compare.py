#!/usr/bin/env python3
"""What optest compare claims of two runs, by simulation and on this machine, and what it takes.

Simulated are machines whose runs differ and whose samples hang together; on this machine a few
operators of torch are measured by run after run of the same code. Prints a markdown table and exits
1 where a share or a time is on the wrong side of its bar. scripts/bench_ab.py shows optest ab.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing as mp
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from bars import at_least
from numpy.typing import NDArray

from optest.compare import as_json, as_markdown
from optest.compare.judge import Rule, compared
from optest.compare.rank import ranked
from optest.compare.side import Case, Cell, Side
from optest.compare.statistics import (
    Changes,
    mann_whitney,
    paired_change,
    unpaired_changes,
)
from optest.compare.verdict import is_change

Samples = Sequence[NDArray[np.float64]]

COMPARISONS = 200
IN_TURN = 1000
MOST_FALSE = 0.02
TRUE = {0.03: 0.80, 0.05: 0.95, 0.10: 0.99}
BLOCKS, IN_A_BLOCK = 12, 20
CASES, SAMPLES = 100_000, 30
MOST_S, MOST_BYTES = 5.0, 1e9


@dataclass(frozen=True)
class Row:
    """A line of the table; ``ok`` is None where it only stands beside another."""

    what: str
    found: str
    bar: str = ""
    ok: bool | None = None

    def __str__(self) -> str:
        ok = "" if self.ok is None else "yes" if self.ok else "NO"
        return f"| {self.what} | {self.found} | {self.bar} | {ok} |"


@dataclass(frozen=True)
class Machine:
    """How times vary: standard deviations of their logarithm.

    Attributes:
        noise: from call to call.
        slow: of what lasts for some twenty calls.
        runs: from run to run.
    """

    noise: float = 0.02
    slow: float = 0.005
    runs: float = 0.007

    def run(self, generator: np.random.Generator, cases: int, samples: int = 40) -> Samples:
        """Times of each case of a run, about 100 us."""
        steps = generator.normal(0.0, 1.0, (cases, samples))
        slow = np.empty_like(steps)
        slow[:, 0] = steps[:, 0]
        for n in range(1, samples):
            slow[:, n] = 0.95 * slow[:, n - 1] + (1 - 0.95**2) ** 0.5 * steps[:, n]
        logs = self.slow * slow + generator.normal(0.0, self.noise, steps.shape)
        logs += generator.normal(0.0, self.runs, (cases, 1))
        bursts = generator.random(steps.shape) < 0.03
        logs += bursts * generator.exponential(0.5, steps.shape)
        return [*100.0 * np.exp(logs)]


MACHINES = {
    "quiet": Machine(),
    "noisy": Machine(noise=0.06, slow=0.01),
    "runs 2 % apart": Machine(runs=0.02),
}


def called(changes: Changes) -> int:
    """How many of a family are called changed."""
    return sum(is_change(change.ratio, change.interval, p) for change, p in changes.adjusted())


def shares(name: str, runs: Iterator[tuple[Samples, Samples]]) -> Iterator[Row]:
    """What is called changed where nothing changed: by us, by tests that are often seen."""
    ours = ranks = means = total = comparisons = 0
    for base, head in runs:
        comparisons += 1
        total += len(base)
        ours += called(unpaired_changes(base, head))
        for one, other in zip(base, head, strict=True):
            ranks += mann_whitney(one, other) < 0.01
            means += abs(np.mean(other) / np.mean(one) - 1.0) > 0.05
    said = f"{name}, {comparisons} comparisons of {total // comparisons}"
    share = ours / total
    bar = f"at most {MOST_FALSE:.0%}"
    yield Row(f"{said}: called changed", f"{share:.2%}", bar, share <= MOST_FALSE)
    yield Row(f"{said}: Mann-Whitney alone", f"{ranks / total:.1%}")
    yield Row(f"{said}: means 5 % apart", f"{means / total:.1%}")


def simulated() -> Iterator[Row]:
    """Runs one after the other on machines that differ, of few cases and of many."""
    for name, machine in MACHINES.items():
        for cases in (1, 10, 100):
            generator = np.random.default_rng(cases)
            runs = (
                (machine.run(generator, cases), machine.run(generator, cases))
                for _ in range(COMPARISONS)
            )
            yield from shares(f"simulated, {name}", runs)
            for change in (0.05, 0.1, 0.2):
                said = f"simulated, {name}, one of {cases} slower by {change:.0%}: called"
                yield Row(said, f"{slower(machine, cases, change):.0%}")


def slower(machine: Machine, cases: int, change: float) -> float:
    """How often one slower case is found among others."""
    generator = np.random.default_rng(cases)
    found = 0
    for _ in range(COMPARISONS):
        base, head = (machine.run(generator, cases) for _ in range(2))
        found += called(unpaired_changes(base, [head[0] * (1.0 + change), *head[1:]])) > 0
    return found / COMPARISONS


def in_turn() -> Iterator[Row]:
    """Blocks of both versions in turn, on a machine that drifts by 5 % from block to block."""
    generator = np.random.default_rng(7)
    for true, bar in {0.0: MOST_FALSE, **TRUE}.items():
        hits = 0
        for _ in range(IN_TURN):
            level = np.cumsum(generator.normal(0.0, 0.05, BLOCKS))
            base, head = (
                [
                    100.0
                    * np.exp(
                        at + generator.normal(0, 0.007) + generator.normal(0, 0.02, IN_A_BLOCK)
                    )
                    * factor
                    for at in level
                ]
                for factor in (1.0, 1.0 + true)
            )
            change = paired_change(base, head)
            hits += is_change(change.ratio, change.interval, change.p)
        share = hits / IN_TURN
        ok = share <= bar if true == 0.0 else share >= bar
        least = f"at {'most' if true == 0.0 else 'least'} {bar:.0%}"
        yield Row(
            f"simulated, {BLOCKS} blocks in turn, a change of {true:.0%}", f"{share:.1%}", least, ok
        )


def measured_run(_: int) -> list[NDArray[np.float64]]:
    """A run of this machine: in a process of its own, operators of torch, timed as op tests do."""
    import torch

    from optest.test_common import run_perftest

    torch.set_num_threads(1)
    x, wide, square = torch.ones(1 << 14), torch.ones(256, 1024), torch.ones(128, 128)
    work: list[Callable[[], object]] = [
        functools.partial(torch.exp, x),
        functools.partial(torch.softmax, wide, -1),
        functools.partial(torch.mm, square, square),
        functools.partial(torch.sort, x),
        functools.partial(torch.cumsum, wide, 0),
    ]
    return [np.array(run_perftest(call, num_iters=40)[1].samples_us) for call in work]


def here(comparisons: int) -> Iterator[Row]:
    """Each run of this machine against the one before it."""
    import torch

    import optest.test_common  # noqa: F401 - once, before the runs part

    torch.set_num_threads(1)
    context = mp.get_context("fork")
    with context.Pool(1, maxtasksperchild=1) as pool:
        runs = pool.map(measured_run, range(comparisons + 1), chunksize=1)
    yield from shares("this machine", itertools.pairwise(runs))
    ratios = [
        np.log(np.median(b) / np.median(a))
        for r, s in itertools.pairwise(runs)
        for a, b in zip(r, s, strict=True)
    ]
    middle = np.quantile(np.abs(ratios), (0.5, 0.95))
    yield Row(
        "this machine: how far medians of two runs are apart",
        f"half by {middle[0]:.1%}, 95 % by {middle[1]:.1%}",
    )


def large_side(name: str, seed: int) -> Side:
    """A run of many cases."""
    times = 100.0 * np.exp(np.random.default_rng(seed).normal(0.0, 0.02, (CASES, SAMPLES)))
    medians = np.median(times, axis=1)
    cases = [
        Case(
            f"test_gemm.py::test_gemm[m={n}-n=4096-k=7168-dtype=bf16]",
            "op_tests/test_gemm.py",
            "gemm",
            {"m": str(n)},
            cells={"cpp": Cell(float(medians[n]), times[n].tolist(), clock="wall", cache="cold")},
        )
        for n in range(CASES)
    ]
    return Side(name, cases)


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Of this process's processor, and of the clock."""
    started, wall = time.process_time(), time.perf_counter()
    call()
    return time.process_time() - started, time.perf_counter() - wall


def scale() -> Iterator[Row]:
    """Many cases, from samples in memory to the page and the JSON."""
    base, head = large_side("base", 0), large_side("head", 1)
    done = compared(base, head, Rule())
    work: dict[str, Callable[[], object]] = {
        "compared": lambda: compared(base, head, Rule()),
        "the page": lambda: as_markdown.page(done),
        "the JSON": lambda: as_json.document(done),
        "ranked": lambda: ranked(base),
    }
    for what, call in work.items():
        taken = sorted(seconds(call) for _ in range(3))
        # The least, and of the processor: who else is on the machine is not ours.
        barred = what == "compared"
        yield Row(
            f"{CASES:,} cases {what}",
            f"{taken[0][0]:.2f} s of the processor, {taken[0][1]:.2f} s in all",
            f"{MOST_S:g} s" if barred else "",
            taken[0][0] <= MOST_S if barred else None,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield Row("most memory, both sides included", f"{peak / 1e9:.2f} GB", "1 GB", peak < MOST_BYTES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--comparisons", type=at_least(1), default=COMPARISONS, help="on this machine"
    )
    parser.add_argument("--only", choices=["scale", "simulated", "in-turn", "here"])
    args = parser.parse_args()
    # The memory of scale is the process's: it comes first.
    sections: dict[str, Callable[[], Iterator[Row]]] = {
        "scale": scale,
        "simulated": simulated,
        "in-turn": in_turn,
        "here": lambda: here(args.comparisons),
    }
    print("| what | found | bar | ok |\n|---|---|---|---|")
    failed = False
    for name, section in sections.items():
        if args.only in {None, name}:
            for row in section():
                print(row, flush=True)
                failed |= row.ok is False
    sys.exit(failed)


if __name__ == "__main__":
    main()
