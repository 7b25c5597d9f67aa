"""What a forked child does first: its surroundings, its streams, what becomes of it at the end."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import io
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

from optest.errors import UsageError
from optest.sweep import processes, wire
from optest.sweep.nursery import STACKS

if TYPE_CHECKING:
    from collections.abc import Mapping

# Before a test can put another in its place.
leave = os._exit

_SHARED = (
    *("optest.test_common", "optest.dtypes", "optest.native", "optest.ops", "aiter_ref"),
    *("optest.sweep.collector", "optest.sweep.places", "optest.sweep.worker"),
    *("pandas", "tabulate"),  # of the first summarize()
)


def import_what_is_shared() -> None:
    """In the nursery: all that children need. Nothing of it runs an operation of torch."""
    for name in _SHARED:
        importlib.import_module(name)


def run(request: Mapping[str, Any], fds: Mapping[str, int]) -> None:
    """Do what was asked for and end the process."""
    code = 1
    try:
        _settle(request, fds)
        _do(request["kind"], request["task"], fds)
        code = 0
    except BaseException as error:  # noqa: BLE001 - nobody above could make anything of it
        with contextlib.suppress(Exception):
            traceback.print_exc()
            wire.send(fds["wire"], {"event": "fault", "reason": _words(error)})
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        leave(code)


def _words(error: BaseException) -> str:
    from optest.cases import text
    from optest.line import escaped

    return escaped(text.of_error(error))


def _do(kind: str, task: Mapping[str, Any], fds: Mapping[str, int]) -> None:
    from optest.sweep import collector, places, worker

    if kind == "script":
        _become_script(task)
    kinds = {
        "worker": worker.run,
        "collector": collector.run,
        "place": places.tell_place,
        "devices": places.tell_devices,
    }
    kinds[kind](task, fds)


def _settle(request: Mapping[str, Any], fds: Mapping[str, int]) -> None:
    processes.die_with_parent()
    processes.adopt_orphans()
    processes.be_killed_first()
    _streams(fds["output"])
    faulthandler.enable(fds["fault"])
    faulthandler.register(STACKS, fds["fault"], all_threads=True)
    _environment(request["environment"])
    os.chdir(request["folder"])
    if request["cores"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, request["cores"])
    if request["threads"]:
        import torch

        os.environ["OMP_NUM_THREADS"] = str(request["threads"])
        torch.set_num_threads(request["threads"])


def _environment(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _streams(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for fd in (nothing, output):
        os.close(fd)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _stream(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2)  # type: ignore[misc]


def _stream(fd: int) -> io.TextIOWrapper:
    """Written line by line: what a crash cuts off is a line at most."""
    binary = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(binary), "utf-8", errors="backslashreplace", line_buffering=True
    )


def _become_script(task: Mapping[str, Any]) -> None:
    faulthandler.disable()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # ignored ones would stay so
    command = [sys.executable, task["script"], *_arguments(task)]
    os.environ |= {"PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
    os.execv(sys.executable, command)  # noqa: S606 - the op test itself, as a user starts it


def _arguments(task: Mapping[str, Any]) -> list[str]:
    if task["arguments"] is not None:
        return list(task["arguments"])
    from pathlib import Path

    from optest.cases import collecting

    try:
        return collecting.smoke_arguments(collecting.load(Path(task["script"])))
    except UsageError:
        return []  # the script itself says what is wrong with it
