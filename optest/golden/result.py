"""What a golden run gives back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optest.golden.bench import Bench


@dataclass
class RunResult:
    """What became of a run.

    Attributes:
        passed: no fault of set-up, and every output fits the golden one where there was one.
        error: what was wrong; None where nothing was.
        execution_time: seconds, compiling and comparing included.
        work_dir: folder of the compiled kernel, its data and reports; None where a run ended before
            it had one.
        bench: the timing, where one was asked for.
    """

    passed: bool
    error: str | None = None
    execution_time: float | None = None
    work_dir: Path | None = None
    bench: Bench | None = None

    def __str__(self) -> str:
        """``PASS (1.23s)``, ``FAIL: why (0.50s)``."""
        seconds = "" if self.execution_time is None else f" ({self.execution_time:.2f}s)"
        if self.passed:
            return f"PASS{seconds}"
        return f"FAIL: {self.error}{seconds}" if self.error else f"FAIL{seconds}"
