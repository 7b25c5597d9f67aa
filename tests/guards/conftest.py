from __future__ import annotations

from pathlib import Path

import pytest

from optest import native
from optest.guards import memory


@pytest.fixture(scope="session")
def overrun():
    """Operators that touch memory outside their tensor."""
    if not native.available():
        pytest.skip(str(native.why_not()))
    folder = Path(__file__).parent
    return native.load("overrun", [folder / "overrun.cpp", folder / "raw.cpp"])


@pytest.fixture
def nothing_before():
    """What an earlier test left behind is not this one's."""
    memory.damages()
    memory.faults()
