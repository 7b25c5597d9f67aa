"""A store of its own for each test."""

from __future__ import annotations

import pytest

from optest.store import Store


@pytest.fixture
def store(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'results.sqlite'}") as opened:
        yield opened
