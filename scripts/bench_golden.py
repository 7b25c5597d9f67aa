"""What a golden run adds to kernel and reference, what comparators cost, how fast it replays.

Three parts, each against what it cannot be faster than in the same process: a run of small tensors
against its kernel and golden alone, a comparator against one pass that only reads both tensors,
taking up saved tensors and reading each once against reading the same files from start to end. The
whole run of a replay is shown too: it adds the kernel, its guards and the comparison to the files.
Prints markdown tables and exits 1 where one misses its bar.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from bars import at_least
from bench_check import DTYPES, make_pair, peak_mib, read_both, seconds_of

from optest import logger, native
from optest.checking.distribution import error_distribution
from optest.checking.pool import mapped_pool_ratio_allclose, mapped_pool_ratio_reldiff
from optest.checking.ratio import ratio_allclose, ratio_reldiff
from optest.checking.topk import topk_pair_compare
from optest.golden import Out, TensorSpec, run
from optest.golden.replay import Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OVERHEAD_BAR_MS = 5.0
PASS_BAR, SPREAD_BAR, MEMORY_BAR_MIB = 1.5, 10.0, 64
REPLAY_BAR = 2.0
FEW = 1e-3
ROW, PICKS, BLOCK = 512, 64, 16


@dataclass(frozen=True)
class Row:
    """One line: what was measured, its figure with the spread of the samples, and the bar."""

    what: str
    cells: list[str]
    figure: float
    bar: float

    def line(self) -> str:
        """The line as markdown."""
        verdict = "yes" if self.figure <= self.bar else "NO"
        bar = f"{self.bar:g} | {verdict}" if self.bar < float("inf") else " | "
        return f"| {self.what} | {' | '.join(self.cells)} | {bar} |"


def show(head: list[str], rows: Iterator[Row]) -> bool:
    """Print a table as its rows come; whether one misses its bar."""
    head = [*head, "bar", "ok"]
    print(f"\n| {' | '.join(head)} |", f"|{'---|' * len(head)}", sep="\n")
    missed = False
    for row in rows:
        print(row.line(), flush=True)
        missed |= row.figure > row.bar
    return missed


def quartiles(samples: list[float]) -> tuple[float, float]:
    """The middle half of the samples."""
    low, _, high = statistics.quantiles(samples, n=4)
    return low, high


# ---- what a run adds -----------------------------------------------------------------------------


def add_one(x: torch.Tensor, y: Out[torch.Tensor]) -> None:
    """The smallest kernel there is."""
    torch.add(x, 1, out=y)


def golden_add_one(values: dict[str, Any]) -> None:
    """Its reference."""
    values["y"][:] = values["x"] + 1


def overheads(repeats: int) -> Iterator[Row]:
    """A run of [16, 16] tensors, less its kernel and its golden, in milliseconds."""
    tensors = {"x": torch.ones(16, 16), "y": torch.zeros(16, 16)}
    golden = {"golden": golden_add_one}
    for name, references in (("kernel and golden", golden), ("kernel alone", {})):
        total, own = [], []
        for _ in range(repeats):
            with quiet():
                total.append(1e3 * seconds_of(lambda: small_run(references.get("golden"))))  # noqa: B023
            own.append(1e3 * seconds_of(lambda: own_time(tensors)))
        added = [t - o for t, o in zip(total[5:], own[5:], strict=True)]
        median, (low, high) = statistics.median(added), quartiles(added)
        spread = f"{low:.2f} .. {high:.2f}"
        cells = [f"{statistics.median(own):.3f}", f"{median:.2f}", spread, str(len(added))]
        yield Row(f"run, {name}", cells, median, OVERHEAD_BAR_MS)


def own_time(tensors: dict[str, torch.Tensor]) -> None:
    """What the kernel and the golden take without a harness."""
    add_one(tensors["x"], tensors["y"])
    golden_add_one(tensors)


def small_run(golden: Callable[..., None] | None) -> None:
    """One run, which must pass."""
    specs = [
        TensorSpec("x", [16, 16], torch.float32, init_value=torch.randn),
        TensorSpec("y", [16, 16], torch.float32),
    ]
    result = run(add_one, specs, golden_fn=golden)
    assert result.passed, result.error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What a run prints goes nowhere; it is printed all the same."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


# ---- comparators ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """A comparator and what it is given."""

    name: str
    comparator: Any
    actual: torch.Tensor
    expected: torch.Tensor
    outputs: tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]
    inputs: dict[str, torch.Tensor]
    bar: float

    def __call__(self) -> object:
        """Judge once."""
        with quiet():
            return self.comparator(
                self.actual,
                self.expected,
                actual_outputs=self.outputs[0],
                expected_outputs=self.outputs[1],
                inputs=self.inputs,
                rtol=1e-2,
                atol=1e-2,
            )


def element_checks(a: torch.Tensor, b: torch.Tensor) -> list[Check]:
    """Those that need the pair alone; strict ones fail on few mismatches and show them."""
    rows = a.numel() // ROW
    tall = (a.view(rows, ROW), b.view(rows, ROW))
    made = [
        ("ratio_allclose", ratio_allclose(), (a, b)),
        ("ratio_allclose, strict", ratio_allclose(max_error_ratio=0), (a, b)),
        ("ratio_allclose, ignore_nan", ratio_allclose(ignore_nan=True), (a, b)),
        (
            "ratio_allclose, valid_rows, zero_tail",
            ratio_allclose(valid_rows=rows, zero_tail=True),
            tall,
        ),
        (
            "ratio_allclose, half the columns",
            ratio_allclose(valid_rows=ROW // 2, valid_axis=1),
            tall,
        ),
        ("ratio_reldiff", ratio_reldiff(), (a, b)),
        ("ratio_reldiff, strict", ratio_reldiff(pct_thd=0), (a, b)),
    ]
    checks = [Check(name, made_by, *pair, ({}, {}), {}, PASS_BAR) for name, made_by, pair in made]
    return [
        *checks,
        Check("error_distribution", error_distribution(), a, b, ({}, {}), {}, SPREAD_BAR),
    ]


def pool_checks(a: torch.Tensor, b: torch.Tensor) -> list[Check]:
    """A pool of which a random half of the rows is mapped; the others are equal."""
    rows = a.numel() // ROW
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
    mapping = order[: rows // 2]
    for row in order[rows // 2 :].split(1 << 16):
        a.view(rows, ROW)[row] = b.view(rows, ROW)[row]
    shape = (rows // BLOCK, BLOCK, ROW)
    layout: dict[str, Any] = {"mapping_shape": tuple(mapping.shape), "block_size": BLOCK}
    return [
        Check(make.__name__, make("m", **layout), a.view(shape), b.view(shape), ({}, {}),
              {"m": mapping}, PASS_BAR)
        for make in (mapped_pool_ratio_allclose, mapped_pool_ratio_reldiff)
    ]  # fmt: skip


def topk_check(values: torch.Tensor, share: float, n: int) -> Check:
    """Rows of picks, of which a share has two tied ones the other way round."""
    rows = n // PICKS
    expected = torch.arange(PICKS, dtype=torch.int32).repeat(rows, 1)
    actual = expected.clone()
    hit = torch.randperm(rows, generator=torch.Generator().manual_seed(0))[: int(share * rows)]
    actual[hit, 0], actual[hit, 1] = 1, 0
    outputs = {"v": torch.zeros(1, 1, dtype=values.dtype).expand(rows, PICKS)}
    return Check("topk_pair_compare, int32 indices", topk_pair_compare("v"), actual, expected,
                 (outputs, outputs), {}, PASS_BAR)  # fmt: skip


def measured(check: Check, repeats: int) -> tuple[list[float], float, float]:
    """Times as multiples of one read of both, the median in ms, and MiB beyond the tensors."""
    check()
    before = peak_mib(reset=True)
    ratios, times = [], []
    for _ in range(repeats):
        floor = seconds_of(lambda: read_pair(check))
        times.append(seconds_of(check))
        ratios.append(times[-1] / floor)
    return ratios, 1e3 * statistics.median(times), peak_mib() - before


def read_pair(check: Check) -> None:
    """One read of what the check compares; of half the columns that is the whole all the same."""
    read_both(check.actual.view(-1), check.expected.view(-1))


def comparators(elements: int, repeats: int) -> Iterator[Row]:
    """Every comparator: equal tensors, few mismatches, nothing but mismatches."""
    if not native.available():
        print(f"\nno compiled pass here: {native.why_not()}")
    for dtype in DTYPES:
        for share in (0.0, FEW, 1.0):
            expected, actual = make_pair(DTYPES[dtype], elements, share)
            label = f"{dtype}, {100 * share:g}% off" if share else f"{dtype}, equal"
            for check in element_checks(actual, expected):
                yield row_of(check, label, repeats)
            for check in pool_checks(actual, expected):
                yield row_of(check, label, repeats)
            values = expected[:1].clone()
            del expected, actual, check
            yield row_of(topk_check(values, share / 10, elements), label, repeats)


def row_of(check: Check, label: str, repeats: int) -> Row:
    """One comparator's line; memory beyond its bar counts as missing the bar of time."""
    ratios, ms, mib = measured(check, repeats)
    low, high = quartiles(ratios)
    ratio = statistics.median(ratios)
    cells = [label, f"{check.actual.numel() / 2**20:.0f} Mi", f"{ms:.0f}", f"{ratio:.2f}",
             f"{low:.2f} .. {high:.2f}", f"{mib:.0f}"]  # fmt: skip
    return Row(check.name, cells, float("inf") if mib > MEMORY_BAR_MIB else ratio, check.bar)


# ---- replay --------------------------------------------------------------------------------------


def copy_out(x: torch.Tensor, y: Out[torch.Tensor]) -> None:
    """A kernel that takes no longer than its memory does."""
    y.copy_(x)


def golden_copy_out(values: dict[str, Any]) -> None:
    """Its reference."""
    values["y"].copy_(values["x"])


def replays(megabytes: int, repeats: int) -> Iterator[Row]:
    """Saved tensors and a whole run from them, against reading the files."""
    n = megabytes * 10**6 // 8
    with quiet():
        saved = run(copy_out, big_specs(n), golden_fn=golden_copy_out, save_data=True)
    assert saved.passed, saved.error
    assert saved.work_dir is not None
    data = Path(saved.work_dir) / "data"
    files = sorted(data.rglob("*.safetensors"))
    ways = (
        ("saved tensors, files cold", take_up, drop, REPLAY_BAR),
        ("whole run, files cold", replay, drop, float("inf")),
        ("whole run, files warm", replay, lambda _: None, float("inf")),
    )
    for name, way, prepare, bar in ways:
        ratios, times, reads = [], [], []
        for _ in range(repeats):
            prepare(files)
            reads.append(seconds_of(lambda: read_through(files)))
            prepare(files)
            times.append(seconds_of(lambda: way(data, n)))  # noqa: B023 - called at once
            ratios.append(times[-1] / reads[-1])
        size = sum(file.stat().st_size for file in files) / 1e9
        low, high = quartiles(ratios)
        ratio = statistics.median(ratios)
        speed = size / statistics.median(reads), size / statistics.median(times)
        cells = [f"{size:.2f}", f"{speed[0]:.2f}", f"{speed[1]:.2f}", f"{ratio:.2f}",
                 f"{low:.2f} .. {high:.2f}"]  # fmt: skip
        yield Row(name, cells, ratio, bar)


def big_specs(n: int) -> list[TensorSpec]:
    """Two tensors of n numbers, an input and an output."""
    return [
        TensorSpec("x", [n], torch.float32, init_value=1.0),
        TensorSpec("y", [n], torch.float32),
    ]


def take_up(data: Path, n: int) -> None:
    """The tensors of a replay, each read once: files are mapped, which alone reads nothing."""
    specs = big_specs(n)
    specs[0].direction, specs[1].direction = "in", "out"
    found = Replay(data)
    found.check(specs, golden_copy_out)
    read_both(found.inputs(specs)["x"], found.outputs(specs)["y"])


def replay(data: Path, n: int) -> None:
    """A run that must pass."""
    with quiet():
        result = run(copy_out, big_specs(n), golden_fn=golden_copy_out, golden_data=data)
    assert result.passed, result.error


def drop(files: list[Path]) -> None:
    """Out of the page cache, as far as the system does that."""
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_through(files: list[Path]) -> None:
    """Every file from start to end, in pieces that stay in the caches."""
    room = bytearray(1 << 22)
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(room):
                pass


# ---- all of it -----------------------------------------------------------------------------------


@contextlib.contextmanager
def elsewhere() -> Iterator[None]:
    """A work folder of its own on this disk, gone at the end."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory(dir=here) as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--elements",
        type=at_least(ROW * BLOCK * PICKS),
        default=1 << 28,
        help="of each compared tensor",
    )
    parser.add_argument("--replay-mb", type=at_least(1), default=1000, help="of saved data")
    parser.add_argument("--repeats", type=at_least(2), default=7, help="of comparators and replays")
    parser.add_argument(
        "--runs", type=at_least(7), default=65, help="of small tensors; five warm up"
    )
    parser.add_argument("--only", choices=["run", "comparators", "replay"])
    options = parser.parse_args()
    options.elements -= options.elements % (ROW * BLOCK * PICKS)
    logger.setLevel("WARNING")
    missed = False
    with elsewhere():
        if options.only in (None, "run"):
            head = ["golden.run", "own ms", "added ms", "quartiles", "runs"]
            missed |= show(head, overheads(options.runs))
        if options.only in (None, "comparators"):
            head = ["comparator", "pair", "elements", "ms", "x one read", "quartiles", "extra MiB"]
            missed |= show(head, comparators(options.elements, options.repeats))
        if options.only in (None, "replay"):
            head = ["replay", "GB", "read GB/s", "replay GB/s", "x one read", "quartiles"]
            missed |= show(head, replays(options.replay_mb, min(options.repeats, 5)))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
