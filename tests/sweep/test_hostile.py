"""Op tests that end, hang and fill their process, each case among healthy ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from optest.sweep.executor import Job, Limits, Work
from optest.sweep.lane import core_lanes
from optest.sweep.local import LocalExecutor

HOSTILE = Path(__file__).parent / "hostile"
LIMITS = Limits(seconds=4.0, memory_bytes=1 << 30)

# file: status, words of the reason, words of the text, what was left
FATES = {
    "abort": ("crashed", "killed by SIGABRT", "in test_abort", ""),
    "children": ("passed", "", "", "forked process"),
    "daemon": ("passed", "", "", "import os, time"),
    "descriptors": ("crashed", "it closed the descriptors", "", ""),
    "environment": ("passed", "", "", "environment"),
    "events": ("passed", "", "", ""),  # the script itself says so: see below
    "exits": ("crashed", "os._exit(0)", "", ""),
    "folder": ("passed", "", "", "working folder"),
    "forks": ("passed", "", "", None),  # they may be gone by then
    "hang": ("hung", "longer than 4 s", "in test_hang", ""),
    "interrupt": ("error", "KeyboardInterrupt", "", ""),
    "long_text": ("error", "RuntimeError: word word", "characters left out", ""),
    "memory": ("crashed", "more than 1.0 GiB of memory", "", ""),
    "output": ("crashed", "printed more than 64.0 MiB", "bytes left out", ""),
    "paths": ("passed", "", "", "import path, garbage collection"),
    "runaway": ("passed", "", "", "forked process"),
    "segfault": ("crashed", "killed by SIGSEGV", "in string_at", ""),
    "spin": ("hung", "longer than 4 s", "in test_spin", ""),
    "state": ("passed", "", "", "default dtype, thread count"),
    "stdout": ("passed", "", "", "standard output, sys.stdout"),
    "system_exit": ("error", "SystemExit: 0", "raise SystemExit(0)", ""),
    "threads": ("passed", "", "", "thread restless"),
    "timer": ("passed", "", "", "timers"),
}


@pytest.fixture(scope="module")
def results():
    files = sorted(path.name for path in HOSTILE.glob("test_*.py"))
    taken = []
    job = Job(mode="check", folder=HOSTILE, limits=LIMITS)
    with LocalExecutor(job, core_lanes(2)) as executor:
        collections = executor.collect(files, lambda _: None)
        assert [each.fault for each in collections] == [""] * len(files)
        work = [Work(planned) for each in collections for planned in each.planned]
        executor.run(work, lambda _: None, taken.append)
    return taken


def test_every_healthy_case_is_taken_once_and_passes(results):
    healthy = [r for r in results if r.planned.arguments.get("n") in {0, 2}]
    counts = Counter(result.planned.id for result in results)
    assert set(counts.values()) == {1}
    assert len(healthy) == 2 * len(FATES)
    assert [r for r in healthy if r.status != "passed" or r.left or "copy err" not in r.row] == []


@pytest.mark.parametrize("name", FATES)
def test_a_hostile_case_is_named_with_its_cause(results, name):
    status, reason, text, left = FATES[name]
    identity = f"test_{name}.py::test_{name}[n=1]"
    (result,) = [each for each in results if each.planned.id == identity]
    assert result.status == status
    assert reason in result.reason
    assert text in result.text
    if left is not None:
        assert left in ", ".join(result.left)
        assert bool(left) == bool(result.left)
    assert len(result.reason) <= 2_000
    assert len(result.text) <= 60_000


def test_a_script_whose_events_file_was_replaced_fails(results):
    (script,) = [each for each in results if each.planned.whole]
    assert (script.planned.id, script.status) == ("test_events.py", "failed")
    assert "events file was replaced" in script.reason
    assert script.left == ["events file"]
