"""One process at a time works on a run, and one that was killed holds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from optest.errors import UsageError
from optest.sweep.claim import Claim, is_taken

HOLDER = """
import sys
from optest.sweep.claim import Claim
with Claim("store", sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder():
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, "R"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    with process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_run_that_another_process_works_on_is_refused_by_name(holder):
    assert is_taken("store", "R")
    assert not is_taken("store", "Q")
    assert not is_taken("another store", "R")
    with pytest.raises(UsageError, match=f"run R: process {holder.pid} is at work on it"):
        Claim("store", "R").__enter__()


@pytest.mark.parametrize("end", ["killed", "finished"])
def test_a_process_that_has_ended_holds_nothing(holder, end):
    if end == "killed":
        holder.kill()
    holder.communicate("")
    assert not is_taken("store", "R")


def test_where_nothing_can_be_written_a_run_is_not_held_up(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "nowhere"))
    assert not is_taken("store", "R")
