"""Runs with times, failures, ceilings and a past, as reports are about."""

from __future__ import annotations

import random
from dataclasses import replace

from optest.store.records import Ceiling, Peaks, Place, Planned, Result, RunFacts

PLACE = Place("bench", "cpu", "A CPU", "", {"torch": "2.13.0", "python": "3.11"})
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="window.hit=2">&amp;\u2028'
FILE = "op_tests/test_gemm.py"
CEILINGS = (
    Ceiling("read", "memory", 2, 20e9, 1 << 28),
    Ceiling("copy", "memory", 2, 16e9, 1 << 28),
    Ceiling("read", "L2", 2, 90e9, 1 << 20),
    Ceiling("matrix", "bf16", 2, 0.4e12, 1 << 22),
    Ceiling("matrix", "fp32", 2, 0.1e12, 1 << 22),
    Ceiling("launch", "empty", 1, 0.5),
)


def facts(commit="c0ffee" + "0" * 34, **changes):
    made = RunFacts(commit, "main", False, "run", "0.1.0", PLACE, {"OMP_NUM_THREADS": "2"}, {})
    return replace(made, **changes)


def unit(m, dtype="bf16", n=64, position=0, function="test_gemm"):
    arguments = {"m": m, "n": n, "dtype": dtype}
    words = "-".join(f"{name}={value}" for name, value in arguments.items())
    identity = f"test_gemm.py::{function}[{words}]"
    return Planned(identity, FILE, function, arguments, position=position, table="gemm")


def timing(median_us, seed=0, samples=25):
    draws = random.Random(seed)
    values = [median_us * (1.0 + draws.gauss(0.0, 0.01)) for _ in range(samples)]
    return {
        "median_us": median_us,
        "samples_us": values,
        "ci_us": [median_us * 0.99, median_us * 1.01],
        "n": samples,
        "clock": "wall",
        "cache": "cold",
    }


def verdict(value=0.0, status="pass"):
    counts = {"compared": 100}
    return {
        "value": value,
        "status": status,
        "reason": "",
        "tolerance": {"rtol": 0.01},
        "counts": counts,
    }


def gemm(planned, times_us, status="passed", **changes):
    """A result whose rates follow from its times: 2 m n k operations, k = 64."""
    m, n = planned.arguments["m"], planned.arguments["n"]
    flops, nbytes = 2 * m * n * 64, 2 * (m * 64 + n * 64 + m * n)
    row = {"gfx": "cpu"}
    for seed, (candidate, us) in enumerate(times_us.items()):
        row |= {
            f"{candidate} us": timing(us, seed),
            f"{candidate} TFLOPS": flops / us / 1e6,
            f"{candidate} TB/s": nbytes / us / 1e6,
            f"{candidate} err": verdict(),
        }
    made = Result(planned, status, seconds=0.1, seed=1, row=row, place=PLACE, started=1.7e9)
    return replace(made, **changes)


def sweep(sizes=(16, 64, 256, 1024), slower=1.0):
    """Rows in two dtypes with two candidates; their times grow with m."""
    out = []
    for position, (m, dtype) in enumerate((m, d) for d in ("bf16", "fp32") for m in sizes):
        base = 5.0 + m * (0.2 if dtype == "bf16" else 0.5)
        times = {"cpp": base * slower, "inductor": base * 1.5}
        out.append(gemm(unit(m, dtype, position=position), times))
    return out


def failing():
    """Failures of each kind, one of them named and worded to break out of a page."""
    hostile = Planned(
        f"test_gemm.py::test_gemm[name={HOSTILE}]",
        FILE,
        "test_gemm",
        {"m": 7, "n": 64, "dtype": HOSTILE},
        position=100,
        table="gemm",
    )
    wrong = gemm(unit(32, position=101), {"cpp": 9.0}, "failed", reason="cpp: 3 of 100 are off")
    wrong.row["cpp err"] = verdict(0.5, "fail")
    return [
        Result(hostile, "error", reason=HOSTILE, text=f"Traceback\n{HOSTILE}", place=PLACE),
        wrong,
        Result(unit(48, position=102), "crashed", "killed by SIGSEGV", "stack", place=PLACE),
    ]


def keep(store, results, run_facts=None):
    """A finished run of these results; its id."""
    run = store.begin(run_facts or facts())
    store.plan(run, [each.planned for each in results])
    for each in results:
        store.record(run, each)
    store.end(run, "complete")
    return run


def with_peaks(store):
    store.record_peaks(Peaks(PLACE, 1.7e9, CEILINGS))


def words(coded):
    """The texts that a page's data holds as numbers into a list; None where there is none."""
    return [None if code < 0 else coded["words"][code] for code in coded["codes"]]
