"""In a worker: what a case left changed in its process; put right where that can be done.

What ``optest.guards.process`` knows is put right around each case and stands in its events.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings

# signal's own makes an enum of each answer, which takes twenty times as long.
from _signal import getsignal  # type: ignore[import-not-found]
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from optest.guards import process
from optest.sweep.at_work import AtWork

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_STREAMS = {0: "standard input", 1: "standard output", 2: "standard error"}
# Those that programs handle.
_SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM),
    *(signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2, signal.SIGABRT),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
)
_INSTALLED = "-packages"
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_BENCHMARKING = ("enabled", "benchmark", "deterministic", "allow_tf32")


def _handlers() -> list[object]:
    return [getsignal(number) for number in _SIGNALS]


def _set_handlers(wanted: list[Any]) -> None:
    for number, handler in zip(_SIGNALS, wanted, strict=True):
        if getsignal(number) != handler and handler is not None:
            signal.signal(number, handler)


def _timers() -> list[bool]:
    return [signal.getitimer(which)[0] > 0 for which in _TIMERS]


def _set_timers(_none: list[bool]) -> None:
    for which in _TIMERS:
        signal.setitimer(which, 0)


def _import_path() -> list[str]:
    # What is installed may add folders of its own, as setuptools does when torch.compile needs it.
    return [entry for entry in sys.path if _INSTALLED not in entry]


def _set_import_path(wanted: list[str]) -> None:
    sys.path[:] = wanted + [entry for entry in sys.path if _INSTALLED in entry]


def _cudnn() -> list[object]:
    return [getattr(torch.backends.cudnn, name) for name in _BENCHMARKING]


def _set_cudnn(wanted: list[Any]) -> None:
    for name, value in zip(_BENCHMARKING, wanted, strict=True):
        setattr(torch.backends.cudnn, name, value)


def _garbage() -> bool:
    return gc.isenabled()


def _set_garbage(wanted: bool) -> None:
    (gc.enable if wanted else gc.disable)()


class Leftovers:
    """What this process is like between cases.

    ``can_tell`` is False once a case took away the descriptors through which the parent is told.

    Args:
        own: the descriptors of the worker itself, as they are.
    """

    def __init__(self, own: Mapping[int, os.stat_result]) -> None:
        self._own = own
        self._folder = str(Path.cwd())
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._spare = {fd: os.dup(fd) for fd in _STREAMS}
        self._kept = {fd: os.fstat(fd) for fd in self._spare.values()}
        self._path = sys.path
        self._filters = warnings.filters
        self._table: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
            "signal handlers": (_handlers, _set_handlers),
            "timers": (_timers, _set_timers),
            "import path": (_import_path, _set_import_path),
            "garbage collection": (_garbage, _set_garbage),
            "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
            "settings of cuDNN": (_cudnn, _set_cudnn),
        }
        self._state = process.now()
        self._values = {name: read() for name, (read, _) in self._table.items()}
        self._at_work = AtWork()
        self.can_tell = True

    def before(self) -> None:
        """A case starts."""
        self._at_work.before()

    def after(self) -> tuple[list[str], bool]:
        """What the case left, and whether the process is fit for another."""
        self.can_tell = all(_same(fd, stat) for fd, stat in self._own.items())
        fit = self.can_tell
        left: list[str] = []
        for look in (self._standard, self._files, self._values_of, self._at_work.after):
            try:
                found, right = look()
            except Exception as error:  # noqa: BLE001 - one that cannot be put right is replaced
                found, right = [f"a process that cannot be put right ({error})"], False
            left += found
            fit = fit and right
        return left, fit

    def _standard(self) -> tuple[list[str], bool]:
        """Standard streams: descriptors, then Python's objects on top of them."""
        left = []
        spare = all(_same(fd, stat) for fd, stat in self._kept.items())
        for (fd, name), kept in zip(_STREAMS.items(), self._spare.values(), strict=True):
            if not spare:
                return ["descriptors of the worker"], False
            if not _same(fd, self._kept[kept]):
                os.dup2(kept, fd)
                left.append(name)
        for name, mine in zip(("stdin", "stdout", "stderr"), self._streams, strict=True):
            if mine.closed:
                return [*left, f"sys.{name}"], False
            if getattr(sys, name) is not mine:
                setattr(sys, name, mine)
                left.append(f"sys.{name}")
        return left, True

    def _files(self) -> tuple[list[str], bool]:
        try:
            same = os.getcwd() == self._folder  # noqa: PTH109 - hot
        except FileNotFoundError:
            same = False
        if same and os.path.exists(self._folder):  # noqa: PTH110 - hot
            return [], True
        Path(self._folder).mkdir(parents=True, exist_ok=True)
        os.chdir(self._folder)
        return ["working folder"], True

    def _values_of(self) -> tuple[list[str], bool]:
        left = process.put_back(self._state)
        if sys.path is not self._path:
            sys.path = self._path
            left.append("import path")
        for name, (read, write) in self._table.items():
            if read() != self._values[name]:
                write(self._values[name])
                left.append(name)
        return left, True


def _same(fd: int, stat: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), stat)
    except OSError:
        return False
