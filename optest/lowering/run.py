"""Lower what op tests launch: what the cache does not know goes to child processes."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from optest.lowering.card import Card
from optest.lowering.record import Record, assembled
from optest.lowering.unit import Cache, Unit

_PATIENCE_S = 10


@dataclass(frozen=True)
class Request:
    """What to lower: op tests by their names, for cards, with a command line of the op tests."""

    files: Sequence[Path]
    cards: Sequence[Card]
    words: tuple[str, ...] | None
    smoke: bool
    jobs: int


class Progress(Protocol):
    """What is seen of it; called from any thread."""

    def begin(self, units: int) -> None:
        """So many units have something to compile or to collect."""

    def at(self, share: float, compiled: int, what: str) -> None:
        """This share of the work is done; ``what`` is compiled now."""


@dataclass
class _Pace:
    """How far each unit is; a unit that is collected knows how much it has to compile."""

    units: int
    progress: Progress
    compiled: int = 0
    shares: dict[Unit, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, unit: Unit, share: float, compiled: int, what: str) -> None:
        with self.lock:
            self.shares[unit] = share
            self.compiled += compiled
            self.progress.at(sum(self.shares.values()) / self.units, self.compiled, what)


def lower(request: Request, cache: Cache, progress: Progress) -> Record:
    """Collect and compile what the cache does not have, then say what came of all."""
    begin = time.perf_counter()
    units = [
        Unit.of(path, card.name, request.words, smoke=request.smoke)
        for path in request.files
        for card in request.cards
    ]
    due = [unit for unit in units if _is_due(unit, cache)]
    faults: dict[Unit, str] = {}
    compiled = 0
    if due:
        progress.begin(len(due))
        compiled = _lower_due(due, cache, request.jobs, _Pace(len(due), progress), faults)
    # Read anew: what another process changed meanwhile is not to be mixed in.
    again = Cache(cache.folder)
    found = {unit: again.unit(unit) for unit in units if unit not in faults}
    record = assembled(found, again, faults)
    record.compiled, record.seconds = compiled, round(time.perf_counter() - begin, 2)
    record.smoke, record.words = request.smoke, list(request.words or ())
    return record


def _is_due(unit: Unit, cache: Cache) -> bool:
    found = cache.unit(unit)
    if found is None or found["faults"]:
        return True
    return any(cache.kernel(launch["key"]) is None for launch in found["launches"])


def _lower_due(
    due: list[Unit], cache: Cache, jobs: int, pace: _Pace, faults: dict[Unit, str]
) -> int:
    waiting: queue.SimpleQueue[Unit] = queue.SimpleQueue()
    for unit in due:
        waiting.put(unit)
    children = [_Child(cache) for _ in range(min(jobs, len(due)))]
    threads = [
        threading.Thread(target=_work, args=(child, waiting, pace, faults), daemon=True)
        for child in children
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for child in children:
            child.end()
    return pace.compiled


def _work(
    child: _Child, waiting: queue.SimpleQueue[Unit], pace: _Pace, faults: dict[Unit, str]
) -> None:
    while True:
        try:
            unit = waiting.get_nowait()
        except queue.Empty:
            return
        state = {"due": 0, "done": 0}

        def heard(event: dict[str, Any], unit: Unit = unit, state: dict[str, int] = state) -> None:
            kind = event["event"]
            if kind == "collected":
                state["due"] = event["due"] + state["done"]
            state["done"] += kind == "lowered"
            share = 1.0 if kind in ("done", "fault") else (1 + state["done"]) / (2 + state["due"])
            pace.at(unit, share, int(kind == "compiled"), event.get("kernel", ""))

        words = child.lower(unit, heard)
        if words:
            faults[unit] = words


class _Child:
    """A process that lowers one unit after the other; it must not have TRITON_INTERPRET set."""

    def __init__(self, cache: Cache) -> None:
        left_out = {"TRITON_INTERPRET", "OPTEST_GFX", "OPTEST_ONLY", "OPTEST_MODE", "OPTEST_EVENTS"}
        environment = {k: v for k, v in os.environ.items() if k not in left_out}
        environment["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        environment["OMP_NUM_THREADS"] = "1"
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-m", "optest.lowering.child", str(cache.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            start_new_session=True,
        )
        self._said: list[str] = []
        self._idle = True
        threading.Thread(target=self._listen, daemon=True).start()

    def lower(self, unit: Unit, heard: Callable[[dict[str, Any]], None]) -> str:
        """Wait until the unit is lowered; what kept it from being, else the empty string."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._idle = False
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(unit.to_line())
            self._process.stdin.flush()
        for line in self._process.stdout:
            event: dict[str, Any] = json.loads(line)
            heard(event)
            if event["event"] in ("done", "fault"):
                self._idle = True
                return str(event.get("words", ""))
        words = "".join(self._said[-20:]).strip()
        return f"the process that lowers died ({self._process.wait()}): {words}"

    def end(self) -> None:
        """End it and what it forked; one that has nothing to do ends by itself."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self._process.stdin.close()
            self._process.wait(_PATIENCE_S if self._idle else 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
