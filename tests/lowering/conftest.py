"""The sources of the op tests stand beside the tests: in importlib mode pytest adds no folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
