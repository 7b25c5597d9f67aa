"""What a sweep costs beside its cases: collecting, planning, storing, asking the store, workers.

Prints a markdown table and exits 1 where a median is above its bar. --store measures another
database than a SQLite file of its own; it must be empty, and is left filled.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from bars import Row, at_least, finish

from optest.store import Store, encode, schema, url
from optest.store.records import Place, Planned, Result, RunFacts
from optest.sweep import plan
from optest.sweep.executor import Job, Work
from optest.sweep.lane import Lane
from optest.sweep.local import LocalExecutor

T = TypeVar("T")

COLLECT_BAR_S, CASE_BAR_MS, QUERY_BAR_S, WORKER_BAR_MS = 10.0, 1.0, 0.2, 1.0
FILES, CASES = 10, 20_000
RUNS, MEASURES_A_CASE = 5, 10
MISSING = 1_000
OP_TEST = """
import sys
import time

import torch

from optest.test_common import benchmark, checkAllclose, run_perftest, summarize


@benchmark()
def test_trivial(m, dtype):
    x = torch.ones(16)
    out, us = run_perftest(torch.neg, x)
    return {"us": us, "err": checkAllclose(-x, out)}


def main():
    started = time.perf_counter()
    rows = [test_trivial(m, torch.bfloat16) for m in range(int(sys.argv[1]))]
    print(time.perf_counter() - started)


if __name__ == "__main__":
    main()
"""


def seconds(call: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    out = call()
    return time.perf_counter() - started, out


def collecting(folder: Path, repeats: int) -> tuple[Row, list[Planned]]:
    """All cases of ten files, the start of the processes included."""
    names = [f"test_trivial_{n}.py" for n in range(FILES)]
    for name in names:
        (folder / name).write_text(OP_TEST, "utf-8")

    def once() -> list[Planned]:
        with LocalExecutor(Job((str(CASES // FILES),), folder=folder), [Lane()]) as executor:
            return plan.in_table_order(executor.collect(names, lambda _: None))

    taken, found = zip(*(seconds(once) for _ in range(repeats)), strict=True)
    assert len(found[0]) == CASES, len(found[0])
    return Row(f"collecting {CASES:,} cases of {FILES} files", "s", list(taken), COLLECT_BAR_S), [
        *found[0]
    ]


def result_of(planned: Planned) -> Result:
    """A result with five candidates: a timing of 30 samples and a verdict of each."""
    samples = [10.0 + n / 7 for n in range(30)]
    timing = {
        "median_us": 12.0,
        "samples_us": samples,
        "clock": "wall",
        "cache": "cold",
        "low_us": 11.0,
        "high_us": 13.0,
    }
    verdict = {"value": 0.0, "status": "passed", "tolerance": {"rtol": 0.01}, "counts": {"n": 16}}
    row: dict[str, object] = {}
    for candidate in range(MEASURES_A_CASE // 2):
        row |= {f"c{candidate} us": timing, f"c{candidate} err": verdict}
    checks = [{"verdict": verdict}]
    return Result(
        planned, "passed", seconds=0.01, row=row, checks=checks, place=Place("host", "cpu")
    )


def storing(store: Store, planned: list[Planned], repeats: int) -> list[Row]:
    """A sweep of all cases: ordered and entered at once, each result by itself."""
    planning, recording = [], []
    chosen = planned[:: CASES // 500]
    for _ in range(repeats):

        def enter() -> str:
            run = store.begin(RunFacts(mode="check"))
            store.plan(run, planned)
            plan.longest_first(planned, store.expected(planned, mode="check", gfx="cpu"))
            return run

        taken, run = seconds(enter)
        planning.append(1e3 * taken / len(planned))
        recording.append(1e3 * recorded_seconds(store, run, chosen) / len(chosen))
    both = [sum(pair) for pair in zip(planning, recording, strict=True)]
    return [
        Row("planning", "ms a case", planning, None),
        Row(f"storing {MEASURES_A_CASE} measures and a verdict", "ms a case", recording, None),
        Row("planning and storing", "ms a case", both, CASE_BAR_MS),
    ]


def recorded_seconds(store: Store, run: str, chosen: list[Planned]) -> float:
    """What it takes to store a result of each, one by one."""
    results = [result_of(each) for each in chosen]
    taken, _ = seconds(lambda: [store.record(run, each) for each in results])
    return taken


def fill(store: Store, at: str, planned: list[Planned]) -> str:
    """Runs of all cases with all their measures, in bulk; the last run lacks some."""
    rows = encode.rows_of(result_of(planned[0]))
    sample = store.begin(RunFacts(mode="run"))
    store.record(sample, result_of(planned[0]))
    runs = [store.begin(RunFacts(mode="run")) for _ in range(RUNS)]
    engine = sa.create_engine(url.parse(at).server or at)
    with engine.begin() as connection:
        numbers = dict(connection.execute(sa.select(schema.runs.c.id, schema.runs.c.number)).all())
        names = sa.select(schema.candidates.c.name, schema.candidates.c.number)
        candidates = dict(connection.execute(names).all())
        place = connection.execute(sa.select(sa.func.max(schema.places.c.number))).scalar_one()
        for run in runs:
            done = planned[: -MISSING or None] if run == runs[-1] else planned
            fixed = {"run_number": numbers[run], "planned": True, "place_number": place}
            cases = [{**rows.case, **encode.planned_row(each), **fixed} for each in done]
            connection.execute(sa.insert(schema.cases), cases)
            of_run = schema.cases.c.run_number == numbers[run]
            found = connection.execute(sa.select(schema.cases.c.number).where(of_run)).scalars()
            for some in in_pieces(list(found), 2_000):
                measures = [
                    {**row, "case_number": n, "candidate_number": candidates[row["candidate"]]}
                    for n in some
                    for row in rows.measures
                ]
                connection.execute(sa.insert(schema.measures), measures)
                verdicts = [{**row, "case_number": n} for n in some for row in rows.verdicts]
                connection.execute(sa.insert(schema.verdicts), verdicts)
        total = connection.execute(sa.select(sa.func.count()).select_from(schema.measures))
        print(f"the store holds {total.scalar_one():,} measures\n", file=sys.stderr)
    engine.dispose()
    store.plan(runs[-1], planned)
    return runs[-1]


def in_pieces(items: list[int], length: int) -> Iterator[list[int]]:
    for start in range(0, len(items), length):
        yield items[start : start + length]


def asking(store: Store, run: str, planned: list[Planned], repeats: int) -> list[Row]:
    """The two questions that a person waits for."""
    chosen = planned[:: CASES // (10 * repeats)]
    latest = [seconds(lambda each=each: store.latest(each.id)) for each in chosen]
    assert all(found is not None for _, found in latest)
    missing = [seconds(lambda: store.missing(run)) for _ in range(repeats)]
    assert {len(found) for _, found in missing} == {MISSING}
    return [
        Row("latest run of a case", "s", [taken for taken, _ in latest], QUERY_BAR_S),
        Row(
            f"what {MISSING:,} of {CASES:,} cases are missing",
            "s",
            [taken for taken, _ in missing],
            QUERY_BAR_S,
        ),
    ]


def working(folder: Path, cases: int, repeats: int) -> list[Row]:
    """Trivial cases in a worker, and the same in the script itself, in turn."""
    name = "test_trivial_0.py"
    job = Job((str(cases),), mode="check", folder=folder)
    inside, alone = [], []
    with LocalExecutor(job, [Lane()]) as executor:
        (found,) = executor.collect([name], lambda _: None)
        work = [Work(each) for each in found.planned]

        def run(some: list[Work]) -> float:
            taken: list[Result] = []
            spent, _ = seconds(lambda: executor.run(some, lambda _: None, taken.append))
            assert {each.status for each in taken} == {"passed"}, taken[0]
            assert len(taken) == len(some)
            return spent

        run(work[:50])
        for _ in range(repeats):
            start = run(work[:1])
            inside.append(1e3 * (run(work) - start) / (cases - 1))
            alone.append(1e3 * script_seconds(folder / name, cases) / cases)
    overhead = [a - b for a, b in zip(inside, alone, strict=True)]
    return [
        Row("a trivial case in a worker", "ms a case", inside, None),
        Row("the same in its script", "ms a case", alone, None),
        Row("what the worker adds", "ms a case", overhead, WORKER_BAR_MS),
    ]


def script_seconds(script: Path, cases: int) -> float:
    """What the loop of the script takes, as it says itself; its log is read, as a worker's is."""
    environ = {**os.environ, "OPTEST_MODE": "check"}
    command = [sys.executable, str(script), str(cases)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="URL of an empty database (default: a SQLite file)")
    parser.add_argument("--cases", type=at_least(1), default=2000, help="cases that a worker runs")
    parser.add_argument("--repeats", type=at_least(1), default=5, help="samples of each figure")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="optest-bench-") as made:
        folder = Path(made)
        at = args.store or f"sqlite:///{folder / 'results.sqlite'}"
        collected, planned = collecting(folder, args.repeats)
        rows = [collected]
        with Store.open(at) as store:
            rows += storing(store, planned, args.repeats)
            run = fill(store, at, [replace(each, table="trivial") for each in planned])
            rows += asking(store, run, planned, args.repeats)
        rows += working(folder, args.cases, args.repeats)
    finish(rows)


if __name__ == "__main__":
    main()
