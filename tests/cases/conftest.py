from __future__ import annotations

import json

import pytest

from optest.cases import session as sessions
from optest.cases.events import Events
from optest.cases.session import Session


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
def _warm(monkeypatch):
    """Emptying the caches before each call is timing's own to test, and takes most of the time."""
    monkeypatch.setenv("OPTEST_CACHE", "warm")


@pytest.fixture
def make_session(tmp_path):
    """``make_session("check")`` makes a session of that mode current until the test ends."""
    opened = []

    def make(mode="check"):
        recorded = Recorded(mode, tmp_path / f"events{len(opened)}.jsonl")
        manager = sessions.using(recorded.session)
        manager.__enter__()
        opened.append(manager)
        return recorded

    yield make
    for manager in reversed(opened):
        manager.__exit__(None, None, None)


@pytest.fixture
def check(make_session):
    return make_session("check")
