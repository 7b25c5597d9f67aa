"""The external profiler a process may run under, and when it is to look."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from optest import settings
from optest.errors import UsageError
from optest.log import logger, once

if TYPE_CHECKING:
    from collections.abc import Iterator

# Set by the profilers themselves in what they start; upstream goes by the same two.
_SIGNS = {"unitrace": "UNITRACE_VERSION", "ncu": "NV_NSIGHT_INJECTION_PORT_BASE"}
_CUDA = ("ncu", "nsys")
_LONGEST_S = 60.0

LABEL = "KERNELFOUNDRY_PROFILE_LABEL"  # names what is timed, for what a profiler's user starts

_opened = [0]


def opened() -> int:
    """How many profiler sessions this process has opened so far."""
    return _opened[0]


def detect_profiler() -> str | None:
    """Name of the profiler that this process runs under; None where there is none.

    ``KERNELFOUNDRY_PROFILER`` decides where it is set; else the variables that unitrace and ncu set
    in the processes that they start.
    """
    named = settings.get("KERNELFOUNDRY_PROFILER")
    if named:
        return str(named)
    return next((name for name, sign in _SIGNS.items() if sign in os.environ), None)


@contextlib.contextmanager
def profiler_session(name: str | None, stop_on_exit: bool = False) -> Iterator[None]:
    """Let the profiler look at what happens inside; timed trials belong inside.

    Without a profiler it only notes that trials are made, which ``profile_store`` asks for.

    Args:
        name: what ``detect_profiler()`` says. ``unitrace`` is resumed and paused where
            ``UNITRACE_Session`` names its session, ``vtune`` where
            ``KERNELFOUNDRY_vtune_result_dir`` names its folder, ``ncu`` and ``nsys`` are started
            and stopped through CUDA. Any other looks at the whole process.
        stop_on_exit: end the profiler's session afterwards, instead of pausing it.

    Raises:
        UsageError: the profiler could not be resumed, so that it would see nothing.
    """
    _opened[0] += 1
    _tell(name, "resume")
    try:
        yield
    finally:
        with _as_warning():
            _tell(name, "stop" if stop_on_exit else "pause")


def end() -> None:
    """End unitrace's session, which is only paused so far, when a run of pytest ends."""
    if opened() and detect_profiler() == "unitrace":
        with _as_warning():
            _tell("unitrace", "stop")


@contextlib.contextmanager
def _as_warning() -> Iterator[None]:
    # The trials are made; what they raised must not be hidden either.
    try:
        yield
    except UsageError as error:
        logger.warning("%s", error)


def _tell(name: str | None, what: str) -> None:
    """Tell the profiler to ``resume``, ``pause`` or ``stop``."""
    if name is None:
        return
    if name in _CUDA:
        _tell_cuda(what)
        return
    command = _command(name, what)
    if not command:
        return
    try:
        done = subprocess.run(  # noqa: S603 - a command that the user has set
            command, capture_output=True, text=True, check=False, timeout=_LONGEST_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"profiler {name}: {' '.join(command)}: {error}") from None
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        last = words[-1] if words else "no output"
        raise UsageError(
            f"profiler {name}: {' '.join(command)} ended with {done.returncode} ({last})"
        )


def _command(name: str, what: str) -> list[str]:
    if name == "unitrace":
        session = os.environ.get("UNITRACE_Session", "")  # noqa: SIM112 - its own spelling
        return [_setting("KERNELFOUNDRY_unitrace_cmd"), f"--{what}", session] if session else []
    if name == "vtune":
        folder = settings.get("KERNELFOUNDRY_vtune_result_dir")
        command = [_setting("KERNELFOUNDRY_vtune_cmd"), "-command", what, f"-result-dir={folder}"]
        return command if folder else []
    once(f"profiler {name}: it cannot be paused from here, so it looks at the whole process")
    return []


def _setting(name: str) -> str:
    return settings.get_str(name)


def _tell_cuda(what: str) -> None:
    """Begin or end the range that ncu and nsys look at, where they were told to wait for one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or torch.version.cuda is None:
        return
    torch.cuda.synchronize()
    if what == "resume":
        torch.cuda.profiler.start()
    else:
        torch.cuda.profiler.stop()
