"""What the guards cost over the default sweeps of the op tests.

Cheap guards: what they add to a case, measured with a few timed calls against guards off, in turn
A B B A, as a share of the wall time of the case as it is run by default. (That one depends on when
the median is sure enough, and differs by half from run to run.)
Full guards: calls of each kernel, runs of the reference, and memory at its highest beside what the
same case needs without guards, as a multiple of its tensors, where these are larger than what the
harness itself needs.

Prints two markdown tables and exits 1 where a figure is above its bar.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import logging
import statistics
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optest import logger
from optest.cases import collecting
from optest.cases import session as sessions
from optest.cases.case import call_arguments
from optest.cases.session import Session
from optest.guards import growth
from optest.tensors import span_bytes, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from optest.cases.session import Collected

FOLDER = Path(__file__).parents[1] / "op_tests"
CHEAP_BAR, CALLS_BAR, REFERENCE_BAR, MEMORY_BAR = 0.05, 12, 2, 2.0
_FEW, _ROUNDS = 11, 2
_LARGE_BYTES = 4 << 20
_SAMPLE_S = 0.0005


@dataclass
class Counted:
    """What one case did: calls of each candidate, runs of the reference, bytes of its tensors."""

    calls: Counter[int] = field(default_factory=Counter)
    references: int = 0
    nbytes: int = 0
    current: int = 0
    compared: int = 0
    num_iters: int | None = None

    def forget(self) -> None:
        """Begin again; how much is compared stays known from the runs before."""
        self.calls.clear()
        self.references = self.nbytes = self.current = 0

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

        tensors = tensors_in(func, args, kwargs)
        counted.nbytes = max(counted.nbytes, span_bytes(tensors) + counted.compared)
        if counted.num_iters is not None:
            kwargs["num_iters"] = counted.num_iters
        return original(candidate, *args, **kwargs)

    def check_allclose(a: torch.Tensor, b: torch.Tensor, **options: Any) -> Any:  # noqa: ANN401
        counted.compared = max(counted.compared, a.nbytes)
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


def run(case: Collected, guards: str, mode: str, *, judged: bool = True) -> float:
    """Run one case under ``guards``; seconds. Not judged where another thread takes memory too."""
    call = call_arguments(case.function, case.arguments)
    with sessions.using(Session(mode=mode, guards=guards, judged_by="")) as session:
        started = time.perf_counter()
        case.function(*call.args, **call.kwargs)
        taken = time.perf_counter() - started
    assert not (judged and session.failures), session.failures
    return taken


class Peak:
    """The most memory in use while it is entered, beyond what was in use at first."""

    def __enter__(self) -> Peak:  # noqa: PYI034 - Self is not in Python 3.10
        self._first, self._going, self.nbytes = growth.in_use(), True, 0
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._going = False
        self._thread.join()

    def _sample(self) -> None:
        while self._going:
            self.nbytes = max(self.nbytes, growth.in_use() - self._first)
            time.sleep(_SAMPLE_S)


def cheap_row(name: str, cases: list[Collected], counted: Counted) -> tuple[list[object], bool]:
    """What cheap guards add to the wall time of the cases; and whether it is within the bar."""
    added, total, shares = 0.0, 0.0, []
    for case in cases:
        run(case, "cheap", "run")  # compiles what it needs
        whole = run(case, "off", "run")
        counted.num_iters = _FEW
        taken: dict[str, list[float]] = {"off": [], "cheap": []}
        for guards in ("off", "cheap", "cheap", "off") * _ROUNDS:
            taken[guards].append(run(case, guards, "run"))
        counted.num_iters = None
        more = statistics.median(taken["cheap"]) - statistics.median(taken["off"])
        added, total = added + more, total + whole
        shares.append(more / whole)
    share = added / total
    ok = share <= CHEAP_BAR
    spread = f"{min(shares):.1%} to {max(shares):.1%}"
    row = [name, len(cases), f"{total:.1f}", f"{share:.1%}", spread]
    return [*row, f"{CHEAP_BAR:.0%}", "yes" if ok else "NO"], ok


def full_row(name: str, cases: list[Collected], counted: Counted) -> tuple[list[object], bool]:
    """Calls, runs of the reference and memory under full guards; whether within the bars."""
    calls = references = 0
    memory = 0.0
    for case in cases:
        run(case, "cheap", "check")
        peaks = {}
        for guards in ("off", "full"):
            with Peak() as peak:
                run(case, guards, "check", judged=False)
            peaks[guards] = peak.nbytes
            counted.forget()
            run(case, guards, "check")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", help="op test, as rmsnorm2d; * and ? are wild")
    parser.add_argument("--most", type=int, default=0, help="cases per op test; 0 is all")
    args = parser.parse_args()
    logger.setLevel(logging.ERROR)
    cheap: list[list[object]] = []
    full: list[list[object]] = []
    ok = True
    for name, every, counted in found(args.only, []):
        cases = list(itertools.islice(every, args.most or None))
        row, within_cheap = cheap_row(name, cases, counted)
        cheap.append(row)
        row, within_full = full_row(name, cases, counted)
        full.append(row)
        ok = ok and within_cheap and within_full
        print(f"{name}: done", file=sys.stderr, flush=True)
    heads = ["s without", "cheap guards add", "spread", "bar", "ok"]
    print(table(["op test", "cases", *heads], cheap))
    heads = ["calls a candidate (12)", "reference runs (2)", "extra memory / tensors (2)", "ok"]
    print("\n" + table(["op test", "cases", *heads], full))
    raise SystemExit(0 if ok else 1)


if __name__ == "__main__":
    main()
