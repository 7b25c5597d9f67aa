"""The benchmarks' exit codes: what their tables say, and nothing else that a run may end with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = {
    "bench_check.py": "--elements 4096 --peer-elements 4096 --repeats 1",
    "bench_golden.py": "--only comparators --elements 524288 --repeats 2",
    "bench_overhead.py": "--cases 20 --repeats 1",
}


def run(name, arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / name), *arguments.split()],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("name", SMALL)
def test_it_ends_with_1_where_its_table_shows_a_miss_and_else_with_0(name):
    done = run(name, SMALL[name])
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) > 1, done.stderr
    missed = any(cell in row for row in rows for cell in ("| NO |", "| missed |"))
    assert done.returncode == missed, done.stderr


@pytest.mark.parametrize("path", sorted(ROOT.glob("scripts/bench_*.py")), ids=lambda p: p.name)
def test_each_says_how_it_is_called(path):
    done = run(path.name, "-h")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ")
