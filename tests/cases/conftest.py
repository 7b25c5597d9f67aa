from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _warm(monkeypatch):
    """Emptying the caches before each call is timing's own to test, and takes most of the time."""
    monkeypatch.setenv("OPTEST_CACHE", "warm")


@pytest.fixture
def check(make_session):
    return make_session("check")
