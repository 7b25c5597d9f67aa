"""A store on each database."""

from __future__ import annotations

import pytest

from optest.store import Store


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The URL of a database that holds nothing."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'results.sqlite'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(url):
    with Store.open(url) as opened:
        yield opened


@pytest.fixture
def sqlite(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'results.sqlite'}") as opened:
        yield opened
