"""What every test stands on: no setting from outside, an interpreter for Triton, no GPU assumed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
from pathlib import Path

import pytest
import torch

# In importlib mode pytest adds no folder.
sys.path.insert(0, str(Path(__file__).parent))

from postgres_server import postgres_server, postgres_url  # noqa: F401 - fixtures

_HAS_GPU = torch.cuda.is_available()
# Where compiled csrc is kept says nothing about behaviour, and building anew takes minutes.
_KEPT = {"OPTEST_BUILD_DIR"}

for _name in [name for name in os.environ if name.startswith("OPTEST_") and name not in _KEPT]:
    del os.environ[_name]
os.environ.pop("GPU_ARCHS", None)

if not _HAS_GPU:
    # Read when a kernel is decorated, so it must stand before any test module imports one.
    os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if _HAS_GPU:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA or ROCm device; there is none"))


@pytest.fixture(autouse=True)
def _settings_given_back():
    """A test that sets one of ours without monkeypatch would decide the tests after it."""
    before = _ours()
    yield
    after = _ours()
    for name in after.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)
    assert after == before, "the test left settings changed in the environment"


@pytest.fixture(autouse=True)
def _seeded():
    """The values a test draws do not hang on the tests before it, nor on the day.

    ``TESTS_SEED`` draws others: no tolerance may hold for one seed alone. It is none that a test
    gives a generator of its own, which would draw the same values beside it.
    """
    torch.manual_seed(int(os.environ.get("TESTS_SEED", "20771")))


def _ours() -> dict[str, str]:
    names = ("GPU_ARCHS", "TRITON_INTERPRET")
    return {k: v for k, v in os.environ.items() if k.startswith("OPTEST_") or k in names}


class Recorded:
    """A session with a sink, and what was written to it."""

    def __init__(self, mode, path):
        from optest.cases.events import Events
        from optest.cases.session import Session

        self.session = Session(mode=mode, events=Events(path), judged_by="")
        self.path = path

    @property
    def events(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def finished(self):
        return [event for event in self.events if event["event"] == "finished"]


@pytest.fixture
def make_session(tmp_path):
    """``make_session("check")`` makes a session of that mode current until the test ends."""
    from optest.cases import session as sessions

    with contextlib.ExitStack() as opened:
        numbers = itertools.count()

        def make(mode="check"):
            recorded = Recorded(mode, tmp_path / f"events{next(numbers)}.jsonl")
            opened.enter_context(sessions.using(recorded.session))
            return recorded

        yield make
