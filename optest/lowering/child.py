"""The process that lowers: a unit a line on standard input, what happens as JSON on its output.

torch and Triton are imported once; each unit has a fork of its own, for a process that believes in
one card cannot be made to believe in another. A compiler that crashes takes only its fork along.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from optest.errors import UsageError
from optest.lowering.unit import Cache, Unit

COMPILE_LIMIT_S = 300
_LAST_BYTES = 3000
_SIGNALS_OF_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
Tell = Callable[..., None]


def main() -> None:
    """Serve until standard input ends."""
    cache = Cache(Path(sys.argv[1]))
    wire = os.dup(1)
    os.dup2(2, 1)  # whatever prints does not disturb the protocol
    _load()

    def tell(event: str, **facts: Any) -> None:  # noqa: ANN401 - JSON
        os.write(wire, json.dumps({"event": event, **facts}).encode() + b"\n")

    for line in sys.stdin:
        words = _served(Unit.from_line(line), cache, tell)
        # The last word: whoever asked may end this process as soon as it is heard.
        if words:
            tell("fault", words=words)
        else:
            tell("done")


def _load() -> None:
    """What every fork needs, loaded before the first."""
    import pandas as pd  # noqa: F401
    import triton  # noqa: F401

    from optest import ops  # noqa: F401
    from optest.lowering import collect, kernel, values  # noqa: F401

    values.fakes()  # torch loads its compiler for the first


def _served(unit: Unit, cache: Cache, tell: Tell) -> str:
    """Forks until one comes to the end: each crash is one kernel's result, and the next goes on.

    Returns:
        What kept the unit from being lowered; empty where nothing did.
    """
    with tempfile.TemporaryDirectory(prefix="optest-lowering-") as folder:
        at_work, log, refused = (Path(folder) / name for name in ("at_work", "log", "refused"))
        while True:
            at_work.unlink(missing_ok=True)
            pid = os.fork()
            if pid == 0:
                _in_fork(unit, cache, tell, at_work, log)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if status == 0:
                return refused.read_text() if refused.exists() else ""
            key = at_work.read_text() if at_work.exists() else ""
            words = f"{_death(status)}\n{_tail(log)}".strip()
            if not key or -status in _SIGNALS_OF_OTHERS:
                return words
            cache.keep_kernel(key, {"error": f"the compiler died: {words}"})


def _in_fork(unit: Unit, cache: Cache, tell: Tell, at_work: Path, log: Path) -> None:
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        # Binaries are of no use here: what is kept of them stands in our own cache.
        os.environ["TRITON_CACHE_DIR"] = str(log.parent / "triton")
        _lower(unit, cache, tell, at_work)
        code = 0
    except UsageError as error:
        log.with_name("refused").write_text(str(error))
        code = 0
    except BaseException:  # noqa: BLE001 - printed, and told by the parent
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _lower(unit: Unit, cache: Cache, tell: Tell, at_work: Path) -> None:
    from optest.lowering import card, kernel
    from optest.lowering.collect import collect

    (target,) = card.named([unit.target])
    found = collect(Path(unit.path), target, unit.words, smoke=unit.smoke)
    keys = [kernel.key(launch, target) for launch, _case in found.launches]
    launches = [
        {"kernel": launch.kernel, "specialisation": launch.specialisation, "key": key, "case": case}
        for (launch, case), key in zip(found.launches, keys, strict=True)
    ]
    collected = {
        "launches": launches,
        "cases": found.cases,
        "gated": found.gated,
        "faults": found.faults,
        "notes": found.notes,
        "remarks": found.remarks,
    }
    cache.keep_unit(unit, collected, found.files)
    due = [i for i, key in enumerate(keys) if cache.kernel(key) is None]
    tell("collected", due=len(due))
    for index in due:
        launch, key = found.launches[index][0], keys[index]
        tell("compiling", kernel=launch.kernel)
        with _locked(cache.lock(key)):
            if cache.kernel(key) is None:  # another unit may have launched the same
                at_work.write_text(key)
                with _time_limit(COMPILE_LIMIT_S):
                    made = kernel.compiled(launch, target)
                cache.keep_kernel(key, made)
                at_work.unlink()
                tell("compiled")
        tell("lowered")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """The alarm ends the process, also where it is deep inside the compiler."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def _death(status: int) -> str:
    if status == -signal.SIGALRM:
        return f"it took more than {COMPILE_LIMIT_S} s"
    if status < 0:
        return f"signal {signal.Signals(-status).name}"
    return f"exit code {status}"


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError):
        return log.read_bytes()[-_LAST_BYTES:].decode(errors="replace")
    return ""


if __name__ == "__main__":
    main()
