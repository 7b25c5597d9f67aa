"""Makes ``golden_kernels`` importable: in importlib mode pytest adds no folder for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    """Work folders go where the test's own files go; upstream's variables are nobody's here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPTEST_CACHE", "warm")
    for name in ("BENCH", "BENCH_ROUNDS", "BENCH_WARMUP", "BENCH_RAW", "GOLDEN_NUM_THREADS"):
        monkeypatch.delenv(f"PYPTO_{name}", raising=False)


@pytest.fixture
def recorded(make_session):
    """A session of its own in run mode, current until the test ends."""
    return make_session("run")
