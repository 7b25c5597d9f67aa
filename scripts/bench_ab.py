#!/usr/bin/env python3
"""Does optest ab find a true change, and keep silent where there is none?

Many busy-waits of 200 us stand in a repository of two commits; the second makes some of them 3, 5
and 10 % longer. optest ab is asked what changed, on a quiet machine and beside a busy process; so
are two plain runs made one after the other, by the statistics of optest compare and by the ratio of
their means. Prints a markdown table of the share of cases in which a change was called, and exits 1
where optest ab misses its bar.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bars import at_least

from optest import native, stats
from optest.ab.blocks import of_timing
from optest.ab.request import AbRequest
from optest.ab.run import Means, measured
from optest.compare import in_turn
from optest.compare.statistics import Changes, unpaired_changes
from optest.compare.verdict import is_change
from optest.store import Store
from optest.store.records import Result
from optest.sweep.executor import Job, Work
from optest.sweep.lane import Lane
from optest.sweep.local import LocalExecutor
from optest.sweep.request import Request

US = 200.0
TRUE = (0.03, 0.05, 0.10)
UNCHANGED = 5  # times as many: most of what a commit touches stays as it is
BARS = {0.0: 0.02, 0.03: 0.80, 0.05: 0.95, 0.10: 0.99}  # of no change at most, else at least
MEANS_DIFFER = 0.025  # who compares means has to choose; this could tell 3 % from none
FILE = "test_spin.py"
OP_TEST = """
import sys

import torch

from optest import native
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

from lengths import LENGTHS

SPIN = native.csrc("harness").spin_on


@benchmark()
def test_spin(n):
    x = torch.ones(16)
    _, us = run_perftest(SPIN, x, LENGTHS[n], controls=False)
    return {"gfx": get_gfx(), "spin us": us, "spin err": checkAllclose(torch.ones(16), x)}


def main():
    summarize("spin", [test_spin(n) for n in range(int(sys.argv[1]))])


if __name__ == "__main__":
    main()
"""
GIT = {
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@example.org",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@example.org",
}

Samples = Sequence[float]


@dataclass(frozen=True)
class Called:
    """In how many cases of how many a change was called, by the true change."""

    by: str
    found: Mapping[float, tuple[int, int]]
    barred: bool = False

    def missed(self) -> bool:
        """Whether it is below its bar."""
        return self.barred and any(
            hits > BARS[true] * of if true == 0.0 else hits < BARS[true] * of
            for true, (hits, of) in self.found.items()
        )

    def line(self, load: str) -> str:
        """A row of the table."""
        cells = " | ".join(f"{hits / of:.1%} ({hits} of {of})" for hits, of in self.found.values())
        verdict = ("MISSED" if self.missed() else "yes") if self.barred else ""
        return f"| {self.by} | {load} | {cells} | {verdict} |"


class Bench:
    """Two commits, and the two of them as folders."""

    def __init__(self, folder: Path, cases: int) -> None:
        self.folder = folder
        changed = [true for true in TRUE for _ in range(cases)]
        # Spread among the others, as a commit's are.
        self.trues = [0.0] * (UNCHANGED * cases)
        for at, true in enumerate(changed):
            self.trues.insert(at * (UNCHANGED * cases) // len(changed) + at, true)
        self.repository = folder / "repository"
        self.repository.mkdir()
        self._git("init", "-q", "-b", "main")
        self._commit("before", [US for _ in self.trues])
        self._commit("after", [US * (1.0 + true) for true in self.trues])

    def _git(self, *words: str) -> None:
        command = ["git", "-C", str(self.repository), *words]
        subprocess.run(command, check=True, env={**os.environ, **GIT}, stdout=subprocess.DEVNULL)

    def _commit(self, name: str, lengths: Sequence[float]) -> None:
        """Also laid down as a folder of that name, for plain runs."""
        plain = self.folder / name
        plain.mkdir()
        for at in (self.repository, plain):
            (at / FILE).write_text(OP_TEST, "utf-8")
            (at / "lengths.py").write_text(f"LENGTHS = {list(lengths)!r}\n", "utf-8")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", name)
        self._git("tag", name)

    def in_turn(self) -> Changes:
        """What optest ab measured between the commits."""
        asked = Request(paths=(FILE,), words=(str(len(self.trues)),)).settled()
        with Store.open(f"sqlite:///{self.folder}/store.sqlite") as store:
            means = Means(self.repository, store, _silent)
            outcome = measured(AbRequest("before", "after", sweep=asked), means)
        assert not outcome.fault, outcome.fault
        blocks = [[of_timing(_timing(each)) for each in side] for side in outcome.results]
        assert [len(side) for side in blocks] == [len(self.trues)] * 2, outcome
        return in_turn.changes(*blocks)

    def plain(self, version: str) -> list[Samples]:
        """The samples of a run of all cases, one after the other."""
        job = Job((str(len(self.trues)),), folder=self.folder / version)
        results: dict[str, Result] = {}

        def take(result: Result) -> None:
            results[result.planned.id] = result

        with LocalExecutor(job, [Lane()]) as executor:
            (found,) = executor.collect([FILE], lambda _: None)
            executor.run([Work(each) for each in found.planned], lambda _: None, take)
        return [_timing(results[each.id])["samples_us"] for each in found.planned]


def _silent(_line: str) -> None: ...


def _timing(result: Result) -> dict[str, Samples]:
    assert result.good, result
    timing: dict[str, Samples] = result.row["spin us"]
    return timing


def called(changes: Changes) -> list[bool]:
    """Whether each is called slower, or, as a false alarm may be, faster."""
    return [is_change(change.ratio, change.interval, p) for change, p in changes.adjusted()]


def by_means(base: Sequence[Samples], head: Sequence[Samples]) -> list[bool]:
    pairs = zip(base, head, strict=True)
    return [
        abs(stats.mean(after) / stats.mean(before) - 1.0) > MEANS_DIFFER for before, after in pairs
    ]


def counted(trues: Sequence[float], hits: Sequence[bool]) -> dict[float, tuple[int, int]]:
    """By the true change: how often one was called, of how many."""
    found = dict.fromkeys(BARS, (0, 0))
    for true, hit in zip(trues, hits, strict=True):
        found[true] = (found[true][0] + hit, found[true][1] + 1)
    return found


def under(bench: Bench) -> Iterator[Called]:
    """The rows of the table, on the machine as it is now."""
    yield Called("**optest ab**", counted(bench.trues, called(bench.in_turn())), barred=True)
    base, head = bench.plain("before"), bench.plain("after")
    plain = called(unpaired_changes(base, head))
    yield Called("optest compare of two runs", counted(bench.trues, plain))
    means = by_means(base, head)
    yield Called(f"means differ by {MEANS_DIFFER:.1%}", counted(bench.trues, means))


@contextlib.contextmanager
def busy_neighbour(*, wanted: bool) -> Iterator[None]:
    """Keep one process busy meanwhile."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            time.sleep(0.5)
            yield
        finally:
            child.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=at_least(1), default=14, help="of each true change (14)")
    args = parser.parse_args()
    if not native.available():
        print(f"bench_ab needs the native busy-wait: {native.why_not()}", file=sys.stderr)
        return 2
    native.csrc("harness")
    os.environ["OPTEST_CACHE"] = "warm"  # a cold call costs the same on both sides, and time here
    started = time.monotonic()
    heads = " | ".join(f"{true:.0%}" if true else "none" for true in BARS)
    print(f"Share of cases called changed, by the true change of a busy-wait of {US:g} us\n")
    print(f"| by | machine | {heads} | bar met |\n|---|---|{'---:|' * len(BARS)}---|")
    bars = " | ".join(f"at {'least' if true else 'most'} {bar:.0%}" for true, bar in BARS.items())
    print(f"| bar | | {bars} | |", flush=True)
    missed = False
    with tempfile.TemporaryDirectory(prefix="optest-bench-") as folder:
        bench = Bench(Path(folder), args.cases)
        for load in ("quiet", "busy neighbour"):
            with busy_neighbour(wanted=load != "quiet"):
                for row in under(bench):
                    print(row.line(load), flush=True)
                    missed |= row.missed()
    print(f"\n{'Below the bar.' if missed else 'All bars met.'} {time.monotonic() - started:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
