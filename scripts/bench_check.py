"""What a check costs: time against one pass that only reads both tensors, and memory beyond them.

Ours compiled and in plain torch operations, with torch.isclose, torch.allclose and
torch.testing.assert_close beside them. Prints a markdown table and exits 1 where one of ours misses
its bar or takes more memory than its own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from bars import at_least

from optest import native
from optest.checking import Tolerance, compare, engines
from optest.sweep import processes

if TYPE_CHECKING:
    from collections.abc import Callable

COMPILED_BAR, PLAIN_BAR, MEMORY_BAR_MIB = 1.25, 8.0, 64
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Row:
    """One line of the table; times in seconds, memory in MiB."""

    name: str
    pair: str
    elements: int
    seconds: float
    ratio: float
    mib: float
    bar: float = float("nan")

    @property
    def missed(self) -> bool:
        """Whether time or memory is over the bar."""
        return self.ratio > self.bar or (self.bar > 0 and self.mib > MEMORY_BAR_MIB)

    def cells(self) -> list[str]:
        """The line as text, one entry a column."""
        bar = f"{self.bar:g}" if self.bar > 0 else ""
        verdict = "" if not bar else "missed" if self.missed else "kept"
        ms = f"{self.seconds * 1e3:.0f}"
        return [self.name, self.pair, f"{self.elements / 2**20:.0f} Mi", ms,
                f"{self.ratio:.2f}", f"{self.mib:.0f}", bar, verdict]  # fmt: skip


def make_pair(dtype: torch.dtype, n: int, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor, and a copy in which ``share`` of the elements miss the default bound narrowly."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.empty(n, dtype=dtype), torch.empty(n, dtype=dtype)
    for start in range(0, n, 1 << 24):
        part = slice(start, min(start + (1 << 24), n))
        values = torch.randn(part.stop - start, generator=generator).to(dtype)
        a[part] = values
        if share:
            hit = torch.rand(len(values), generator=generator) < share
            values[hit] = (values[hit].float() * 1.03 + 0.03 * values[hit].float().sign()).to(dtype)
        b[part] = values
    return a, b


def peak_mib(*, reset: bool = False) -> float:
    """Peak of resident memory since the last reset; NaN where the system does not tell."""
    if reset and not processes.reset_peak():
        return float("nan")
    peak = processes.peak_bytes()
    return float("nan") if peak is None else peak / 2**20


def seconds_of(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def read_both(a: torch.Tensor, b: torch.Tensor) -> object:
    """The floor: a compiled loop that does nothing else, or torch's fastest reduction."""
    if native.available():
        return native.csrc("compare").compare_read(a, b)
    return a.view(torch.int32).amax(), b.view(torch.int32).amax()


def measure(
    call: Callable[[], object], a: torch.Tensor, b: torch.Tensor, repeats: int
) -> tuple[float, float, float]:
    """Median seconds, median ratio to a reading pass just before, MiB beyond what was there."""
    before = peak_mib(reset=True)
    ratios, times = [], []
    for _ in range(repeats):
        floor = seconds_of(lambda: read_both(a, b))
        times.append(seconds_of(call))
        ratios.append(times[-1] / floor)
    return statistics.median(times), statistics.median(ratios), peak_mib() - before


def plainly(a: torch.Tensor, b: torch.Tensor) -> None:
    """Compare as on a machine without a compiler."""
    kept = engines._compiled  # noqa: SLF001 - no caller has a reason to choose, only this bench
    engines._compiled = lambda *_: None  # noqa: SLF001
    try:
        compare(a, b)
    finally:
        engines._compiled = kept  # noqa: SLF001


def assert_close(a: torch.Tensor, b: torch.Tensor) -> None:
    """Torch's, whose failure is what takes it longest."""
    try:
        torch.testing.assert_close(b, a, rtol=1e-2, atol=1e-2)
    except AssertionError:
        return


OURS = {
    "optest, compiled": (lambda a, b: compare(a, b, Tolerance()), COMPILED_BAR),
    "optest, plain torch": (plainly, PLAIN_BAR),
}
PEERS = {
    "torch.isclose": lambda a, b: torch.isclose(b, a, rtol=1e-2, atol=1e-2),
    "torch.allclose": lambda a, b: torch.allclose(b, a, rtol=1e-2, atol=1e-2),
    "torch.testing.assert_close": assert_close,
}


def rows_of(options: argparse.Namespace, dtype: str, share: float) -> list[Row]:
    """All rows of one dtype and one share of mismatches."""
    label = f"{dtype}, {share:.0%} mismatched" if share else f"{dtype}, equal"
    rows = []
    a, b = make_pair(DTYPES[dtype], options.elements, share)
    for name, (call, bar) in OURS.items():
        if "compiled" in name and not native.available():
            continue
        call(a[:1000], b[:1000])  # builds, imports
        found = measure(lambda: call(a, b), a, b, options.repeats)  # noqa: B023 - called at once
        rows.append(Row(name, label, options.elements, *found, bar))
    a, b = a[: options.peer_elements].clone(), b[: options.peer_elements].clone()
    for name, call in PEERS.items():
        found = measure(lambda: call(a, b), a, b, 1)  # noqa: B023
        rows.append(Row(name, label, options.peer_elements, *found))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=at_least(1), default=1 << 28)
    parser.add_argument(
        "--peer-elements",
        type=at_least(1),
        default=1 << 26,
        help="for the peers, which need two to five times the pair in memory",
    )
    parser.add_argument("--repeats", type=at_least(1), default=7)
    options = parser.parse_args()
    options.peer_elements = min(options.peer_elements, options.elements)
    head = ["check", "pair", "elements", "ms", "x one read", "extra MiB", "bar", ""]
    print(f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", sep="\n")
    failed = False
    for dtype in DTYPES:
        for share in (0.0, 0.01):
            for row in rows_of(options, dtype, share):
                print(f"| {' | '.join(row.cells())} |", flush=True)
                failed |= row.missed
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
