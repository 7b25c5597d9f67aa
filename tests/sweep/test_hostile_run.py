"""``optest run`` over op tests that end, hang and fill whatever runs them, as a user has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optest.cli.main import app
from optest.store import Store

ROOT = Path(__file__).parents[2]
FOLDER = "tests/sweep/hostile"
# What becomes of the case in the middle; those that are not here only leave something behind.
BAD = {
    "abort": "CRASHED",
    "descriptors": "CRASHED",
    "exits": "CRASHED",
    "hang": "HUNG",
    "interrupt": "ERROR",
    "long_text": "ERROR",
    "memory": "CRASHED",
    "output": "CRASHED",
    "segfault": "CRASHED",
    "spin": "HUNG",
    "system_exit": "ERROR",
}


@pytest.mark.slow
def test_every_healthy_case_is_measured_once_and_every_hostile_one_named(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    limits = ["--timeout", "4", "--memory-limit", "1GiB", "--jobs", "2"]
    url = f"sqlite:///{tmp_path}/r.sqlite"
    done = CliRunner().invoke(app, ["run", FOLDER, *limits, "--store", url])
    assert done.exit_code == 1
    count = 3 * len(list((ROOT / FOLDER).glob("test_*.py")))
    totals = f"{count} cases: {count - len(BAD)} passed, 3 error, 6 crashed, 2 hung in "
    last = done.stderr[done.stderr.index(f"optest: {totals}") :]
    named = re.findall(r"^  ([A-Z]+) test_(\w+)\.py::test_\w+\[n=1\]$", last, re.MULTILINE)
    assert {name: status for status, name in named} == BAD
    assert "  FAILED test_events.py\n" in last  # its cases passed, its events are not to be trusted
    assert done.stdout.count("summary (markdown)") == count / 3
    with Store.open(url) as store:
        results = list(store.results(store.find("latest").id))
    healthy = [r for r in results if not r.planned.id.endswith("[n=1]") and not r.planned.whole]
    assert len(healthy) == len({r.planned.id for r in healthy}) == 2 * count / 3
    assert {r.status for r in healthy} == {"passed"}
