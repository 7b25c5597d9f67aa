"""Makes ``golden_kernels`` importable: in importlib mode pytest adds no folder for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from optest.cases import session as sessions
from optest.cases.events import Events
from optest.cases.session import Session

sys.path.append(str(Path(__file__).parent))


class Recorded:
    """A session with a sink, and what was written to it."""

    def __init__(self, mode, path):
        self.session = Session(mode=mode, events=Events(path), judged_by="")
        self.path = path

    @property
    def events(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def finished(self):
        return [event for event in self.events if event["event"] == "finished"]


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    """Work folders go where the test's own files go; upstream's variables are nobody's here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPTEST_CACHE", "warm")
    for name in ("BENCH", "BENCH_ROUNDS", "BENCH_WARMUP", "BENCH_RAW", "GOLDEN_NUM_THREADS"):
        monkeypatch.delenv(f"PYPTO_{name}", raising=False)


@pytest.fixture
def recorded(tmp_path):
    """A session of its own in run mode, current until the test ends."""
    made = Recorded("run", tmp_path / "events.jsonl")
    with sessions.using(made.session):
        yield made
