"""A child process with a time limit: what it started ends with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_GRACE_S = 5.0


@dataclass(frozen=True)
class Ended:
    """A child that has ended: its exit code (None where it took too long) and all that it said."""

    code: int | None
    said: str

    @property
    def how(self) -> str:
        """In words, how it ended."""
        if self.code is None:
            return "it took too long and was ended"
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-self.code).name}"
            return f"killed by signal {-self.code}"
        return f"exit code {self.code}"


def run_module(
    words: list[str],
    *,
    limit_s: float,
    given: str = "",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Ended:
    """Run ``python -m <words>`` with this process's import path, in a process group of its own.

    Args:
        words: the module and its arguments.
        limit_s: seconds after which the whole group is ended.
        given: the child's standard input.
        environment: its variables; those of this process where None.
        folder: what it may import from as well, last.
    """
    variables = dict(os.environ if environment is None else environment)
    importable = [path or str(Path.cwd()) for path in sys.path]
    importable += [] if folder is None else [str(folder.absolute())]
    variables["PYTHONPATH"] = os.pathsep.join(importable)
    with subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-m", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=variables,
        start_new_session=True,
    ) as child:
        try:
            said, _ = child.communicate(given, timeout=limit_s)
        except subprocess.TimeoutExpired:
            return Ended(None, _end(child).strip())
        except BaseException:
            _end(child)
            raise
        return Ended(child.returncode, said.strip())


def _end(child: subprocess.Popen[str]) -> str:
    """End the child and what it started; first so that it can clear up, then for good."""
    said = ""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            said, _ = child.communicate(timeout=_GRACE_S)
            break
    with contextlib.suppress(ProcessLookupError):  # the child is gone, what it started may not be
        os.killpg(child.pid, signal.SIGKILL)
    return said
