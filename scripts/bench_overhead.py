"""What the seam costs: a sweep of trivial cases, in check and in run mode, and its memory.

Prints a markdown table and exits 1 where a figure is above its bar. The kernel's own time is in
the figures; it is a few microseconds.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import time
from pathlib import Path

os.environ["OPTEST_CACHE"] = "warm"

import torch
from bars import Row, at_least, finish

from optest import logger
from optest.cases import session as sessions
from optest.cases.session import Session
from optest.test_common import benchmark, checkAllclose, run_perftest

CHECK_BAR_MS, RUN_BAR_MS, GROWTH_BAR_BYTES = 0.5, 2.0, 1024


@benchmark()
def test_trivial(m: int) -> dict[str, object]:
    """The smallest case there is: one input, one candidate, one check."""
    x = torch.randn(16)
    out, us = run_perftest(torch.neg, x, num_iters=101)
    return {"m": float(us)} if m < 0 else {"us": us, "err": checkAllclose(-x, out)}


def ms_a_case(mode: str, cases: int) -> float:
    """Milliseconds that one case of a sweep takes, everything included."""
    with sessions.using(Session(mode=mode, judged_by="")) as session:
        started = time.perf_counter()
        for m in range(cases):
            test_trivial(m)
        seconds = time.perf_counter() - started
    assert session.totals["passed"] == cases, session.totals
    return seconds * 1000 / cases


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def growth_a_case(cases: int) -> float:
    """Bytes by which the process grows with each case, once it is warm."""
    with sessions.using(Session(mode="check", judged_by="")):
        for m in range(cases // 10):
            test_trivial(m)
        before = resident_bytes()
        for m in range(cases):
            test_trivial(m + cases)
        return (resident_bytes() - before) / cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=at_least(1), default=1000, help="cases in one sweep")
    parser.add_argument(
        "--repeats", type=at_least(1), default=5, help="sweeps of each mode, interleaved"
    )
    args = parser.parse_args()
    # Formatting and writing the lines is the terminal's time; whether to log is still asked.
    logger.setLevel(logging.WARNING)
    sessions.current().judged_by = ""  # the table does; no case runs in the script's own session
    ms_a_case("check", 50)
    ms_a_case("run", 50)
    times: dict[str, list[float]] = {"check": [], "run": []}
    for _ in range(args.repeats):
        for mode, taken in times.items():
            taken.append(ms_a_case(mode, args.cases))
    growth = [growth_a_case(10 * args.cases)]
    finish(
        [
            Row("check mode", "ms a case", times["check"], CHECK_BAR_MS),
            Row("run mode, 101 warm calls", "ms a case", times["run"], RUN_BAR_MS),
            Row(f"memory over {10 * args.cases} cases", "bytes a case", growth, GROWTH_BAR_BYTES),
        ]
    )


if __name__ == "__main__":
    main()
