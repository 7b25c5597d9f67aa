"""What the guards cost over the default sweeps of the op tests.

Cheap guards: what they add to a case, measured with a few timed calls against guards off, in turn
A B B A, as a share of the wall time of the case as it is run by default. (That one depends on when
the median is sure enough, and differs by half from run to run.) Of either the least of its runs
counts: whatever else runs on the machine only adds. The bar is for all sweeps together.
Full guards: calls of each kernel, runs of the reference, and memory at its highest beside what the
same case needs without guards, as a multiple of its tensors, where these are larger than what the
harness itself needs.

Prints two markdown tables and exits 1 where a figure is above its bar.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import logging
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bars import at_least

from optest import logger
from optest.cases import collecting
from optest.cases import session as sessions
from optest.cases.case import call_arguments
from optest.cases.session import Session
from optest.sweep import processes
from optest.tensors import span_bytes, storage_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from optest.cases.session import Collected

FOLDER = Path(__file__).parents[1] / "op_tests"
CHEAP_BAR, CALLS_BAR, REFERENCE_BAR, MEMORY_BAR = 0.05, 12, 2, 2.0
_FEW, _ROUNDS = 11, 2
_LARGE_BYTES = 4 << 20
_MMAP_THRESHOLD, _MAPPED_FROM = -3, 1 << 16  # of glibc's malloc.h


@dataclass
class Counted:
    """What one case did: calls of each candidate, runs of the reference, bytes of its tensors."""

    calls: Counter[int] = field(default_factory=Counter)
    references: int = 0
    nbytes: int = 0
    current: int = 0
    num_iters: int | None = None
    _held: dict[tuple[str, int], int] = field(default_factory=dict)

    def forget(self) -> None:
        """Begin again."""
        self.calls.clear()
        self._held.clear()
        self.references = self.nbytes = self.current = 0

    def hold(self, *roots: object, more: bool = True) -> None:
        """Count the tensors in ``roots``, each memory once; ``more`` than those counted so far.

        What a candidate is given, what it returns and what that is compared with make up the
        tensors of its case; the next candidate begins again.
        """
        if not more:
            self._held.clear()
        for tensor in tensors_in(*roots):
            key = storage_of(tensor)
            self._held[key] = max(self._held.get(key, 0), span_bytes([tensor]))
        self.nbytes = max(self.nbytes, sum(self._held.values()))

    def calls_a_candidate(self, candidates: int) -> int:
        """The most calls of one of so many candidates; the second pass of a case has them again."""
        each = (
            sum(count for number, count in self.calls.items() if number % candidates == at)
            for at in range(candidates)
        )
        return max(each, default=0)


def watch(module: Any, counted: Counted) -> None:  # noqa: ANN401 - its names are replaced
    """Count what passes through the module's ``run_perftest`` and ``checkAllclose``."""
    original, check = module.run_perftest, module.checkAllclose

    def run_perftest(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        counted.current += 1
        number = counted.current

        @functools.wraps(func)
        def candidate(*given: Any, **named: Any) -> Any:  # noqa: ANN401
            counted.calls[number] += 1
            return func(*given, **named)

        counted.hold(func, args, kwargs, more=False)
        if counted.num_iters is not None:
            kwargs["num_iters"] = counted.num_iters
        measured = original(candidate, *args, **kwargs)
        counted.hold(measured)
        return measured

    def check_allclose(a: torch.Tensor, b: torch.Tensor, **options: Any) -> Any:  # noqa: ANN401
        counted.hold(a, b)
        return check(a, b, **options)

    module.run_perftest, module.checkAllclose = run_perftest, check_allclose


def watch_body(wrapper: Callable[..., Any], counted: Counted) -> None:
    """Count runs of a test function; each makes its reference once.

    Not ``run_torch`` itself: candidates that are compiled from it would be compiled anew.
    """
    body = wrapper.__wrapped__  # type: ignore[attr-defined]

    @functools.wraps(body)
    def counting(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        counted.references += 1
        return body(*args, **kwargs)

    wrapper.__wrapped__ = counting  # type: ignore[attr-defined]


def run(case: Collected, guards: str, mode: str) -> float:
    """Run one case under ``guards``; seconds."""
    call = call_arguments(case.function, case.arguments)
    with sessions.using(Session(mode=mode, guards=guards, judged_by="")) as session:
        started = time.perf_counter()
        case.function(*call.args, **call.kwargs)
        taken = time.perf_counter() - started
    assert not session.failures, session.failures
    return taken


def at_most(case: Collected, guards: str) -> int:
    """Bytes resident at the highest while the case runs, beyond what was resident at first.

    The system's own count: a thread that sampled would take memory beside the candidates.
    """
    library = ctypes.CDLL(None)
    # What is freed goes back to the system at once, or its leavings would count.
    library.mallopt(_MMAP_THRESHOLD, _MAPPED_FROM)
    library.malloc_trim(0)
    if not processes.reset_peak():
        sys.exit("this system does not count the peak of a process: nothing to measure memory with")
    first = processes.peak_bytes()
    run(case, guards, "check")
    return (processes.peak_bytes() or 0) - (first or 0)


@dataclass
class Cheap:
    """Seconds that one op test's cases take, and what cheap guards add to each, as a share."""

    name: str
    seconds: float = 0.0
    added: float = 0.0
    shares: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of the wall time without guards."""
        return self.added / self.seconds

    def row(self) -> list[object]:
        """As a row of the table."""
        spread = f"{min(self.shares):.1%} to {max(self.shares):.1%}"
        return [self.name, len(self.shares), f"{self.seconds:.1f}", f"{self.share:.1%}", spread]

    def add(self, other: Cheap) -> None:
        """Count another's cases here too."""
        self.seconds += other.seconds
        self.added += other.added
        self.shares += other.shares


def cheap_of(name: str, cases: list[Collected], counted: Counted) -> Cheap:
    """What cheap guards add to the wall time of the cases."""
    found = Cheap(name)
    for case in cases:
        run(case, "cheap", "run")  # compiles what it needs
        whole = run(case, "off", "run")
        counted.num_iters = _FEW
        taken: dict[str, list[float]] = {"off": [], "cheap": []}
        for guards in ("off", "cheap", "cheap", "off") * _ROUNDS:
            taken[guards].append(run(case, guards, "run"))
        counted.num_iters = None
        more = min(taken["cheap"]) - min(taken["off"])
        found.add(Cheap(name, whole, more, [more / whole]))
    return found


def spread_over(cases: Sequence[Collected], most: int) -> list[Collected]:
    """At most so many of a sweep's cases, at even distances, the first among them; 0 is all."""
    step = max(1.0, len(cases) / most) if most else 1.0
    return [cases[int(at * step)] for at in range(int(len(cases) / step))]


def full_row(name: str, cases: list[Collected], counted: Counted) -> tuple[list[object], bool]:
    """Calls, runs of the reference and memory under full guards; whether within the bars."""
    calls = references = 0
    memory = 0.0
    for case in cases:
        run(case, "cheap", "check")
        peaks = {}
        for guards in ("off", "full"):
            counted.forget()
            peaks[guards] = at_most(case, guards)
            if guards == "off":
                before, candidates = counted.references, counted.current
        calls = max(calls, counted.calls_a_candidate(candidates))
        references = max(references, -(-counted.references // max(before, 1)))
        if counted.nbytes >= _LARGE_BYTES:
            memory = max(memory, (peaks["full"] - peaks["off"]) / counted.nbytes)
    ok = calls <= CALLS_BAR and references <= REFERENCE_BAR and memory <= MEMORY_BAR
    return [name, len(cases), calls, references, f"{memory:.2f}", "yes" if ok else "NO"], ok


def found(only: str, argv: list[str]) -> Iterator[tuple[str, list[Collected], Counted]]:
    """Each op test's cases, watched."""
    for path in sorted(FOLDER.glob(f"test_{only}.py")):
        module, counted = collecting.load(path), Counted()
        cases = collecting.collect(module, argv).cases
        watch(module, counted)
        for function in {case.function for case in cases}:
            watch_body(function, counted)
        yield path.stem, list(cases), counted


def table(heads: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def print_cheap(found: Sequence[Cheap]) -> bool:
    """The table of cheap guards; whether all together are within their bar."""
    total = Cheap("all")
    for each in found:
        total.add(each)
    within = total.share <= CHEAP_BAR
    last = [*total.row(), f"{CHEAP_BAR:.0%}", "yes" if within else "NO"]
    heads = ["s without", "cheap guards add", "spread", "bar", "ok"]
    rows = [*([*each.row(), "", ""] for each in found), last]
    print(table(["op test", "cases", *heads], rows))
    return within


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", help="op test, as rmsnorm2d; * and ? are wild")
    parser.add_argument("--most", type=at_least(0), default=0, help="cases per op test; 0 is all")
    parser.add_argument("--guards", choices=("cheap", "full"), help="one table instead of both")
    args = parser.parse_args()
    logger.setLevel(logging.ERROR)
    cheap: list[Cheap] = []
    full: list[list[object]] = []
    ok = True
    for name, every, counted in found(args.only, []):
        cases = spread_over(every, args.most)
        if args.guards != "full":
            cheap.append(cheap_of(name, cases, counted))
        if args.guards != "cheap":
            row, within = full_row(name, cases, counted)
            full.append(row)
            ok = ok and within
        print(f"{name}: done", file=sys.stderr, flush=True)
    if cheap:
        ok = print_cheap(cheap) and ok
    if full:
        heads = ["calls a candidate (12)", "reference runs (2)", "extra memory / tensors (2)", "ok"]
        print("\n" + table(["op test", "cases", *heads], full))
    raise SystemExit(0 if ok else 1)


if __name__ == "__main__":
    main()
