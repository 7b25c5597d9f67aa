"""``scripts`` runs op tests; ``op_scripts`` is put where tests find it (pytest adds no folder)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from optest import ops
from optest.cases import session as sessions
from optest.cases.session import Session

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(20)


@pytest.fixture
def scripts(monkeypatch, capsys):
    """Check mode and no inductor, to be quick: both have their own tests."""
    from op_scripts import Scripts

    monkeypatch.setattr(ops.inductor, "available", lambda: False)
    with sessions.using(Session(mode="check", judged_by="")) as session:
        yield Scripts(monkeypatch, capsys, session)
