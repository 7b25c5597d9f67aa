"""Makes ``told_clocks`` importable: in importlib mode pytest adds no folder for it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
