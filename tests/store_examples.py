"""Units and results to put into a store, and children that use one."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from optest.store.records import Place, Planned, Result, RunFacts

PLACE = Place("host", "cpu", "A CPU", "", {"torch": "2.13", "triton": "3.9"})
FACTS = RunFacts("c0ffee" + "0" * 34, "main", True, "run", "0.1.0", PLACE, {"A": "1"}, {"x": [1]})


def planned(n, *, where="", position=None, file="op_tests/test_a.py"):
    return Planned(
        f"test_a.py::test_a[m={n}]",
        file,
        "test_a",
        {"m": n},
        where,
        n if position is None else position,
        "A",
    )


def timing(samples=(1.5, 2.5, 3.5)):
    return {
        "median_us": 2.5,
        "mean_us": 2.5,
        "samples_us": list(samples),
        "ci_us": [1.5, 3.5],
        "n": 3,
        "clock": "wall",
        "cache": "cold",
    }


def verdict(value=0.0, status="pass", msg=""):
    return {
        "value": value,
        "status": status,
        "reason": "" if status == "pass" else "3 of 10 are off",
        "tolerance": {"rtol": 0.01},
        "counts": {"compared": 10},
        "msg": msg,
    }


def result(n, status="passed", **changes):
    """A result as a case with two candidates gives it."""
    good = status in {"passed", "empty", "skipped"}
    row = {"gfx": "cpu"}
    checks = []
    for candidate in ("cpp", "triton"):
        found = verdict(0.0, "pass", candidate) if good else verdict(0.3, "fail", candidate)
        checks.append({"verdict": found})
        row |= {f"{candidate} us": timing(), f"{candidate} TFLOPS": 1.25, f"{candidate} err": found}
    made = Result(
        planned(n),
        status,
        reason="" if good else "cpp: 3 of 10 are off",
        text="" if good else "Traceback: …",
        seconds=0.25,
        seed=7,
        row=row,
        checks=checks,
        findings=[] if good else [{"kind": "alias", "severity": "error"}],
        unguarded=["x"],
        left=["threads"],
        peak_bytes=1 << 40,
        device_peak_bytes=None,
        neighbours=2,
        place=PLACE,
        started=1_700_000_000.5,
    )
    return replace(made, **changes)


def in_child(work):
    """Exit status of a forked child that does ``work``: negative where a signal ended it."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def until(condition, seconds=30.0):
    """Wait until ``condition()``, and fail where it stays away."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)
