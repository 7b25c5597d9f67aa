"""Checks the suite on the card that is here, and writes its tables to docs/gpu/<arch>.md.

Exit code 0: everything held. 1: something did not, or ran out of time. 2: there is no card.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optest.arch import get_gfx_runtime
from optest.cases.table import markdown
from optest.report.section import arithmetic
from optest.stats import quantile
from optest.store import Store, columns
from optest.store.records import Peaks, Result, is_timing
from optest.store.roofline import share_of_limit
from optest.timing.measure import measure
from optest.timing.plan import Plan

ROOT = Path(__file__).resolve().parent.parent
# Seconds that each part may take: ten minutes together.
PEAKS_S, SMOKE_S, TESTS_S, LARGE_S = 60, 270, 90, 60
SPINS_US = (20.0, 200.0, 2000.0)
REPEATS = 7
# Large shapes of what serving spends its time on: products, attention, and what memory limits.
LARGE = (
    ("test_gemm_a16w16.py", "-d bf16 -s 8192,8192,8192"),
    ("test_gemm_a8w8.py", "-d bf16 -s 8192,8192,8192 --quant_dtype fp8"),
    ("test_rmsnorm2d.py", "-d bf16 -s 16384,8192"),
    ("test_activation.py", "-d bf16 -s 8192,14336 --act silu"),
    ("test_quant.py", "-d bf16 -s 16384,8192,8192 --q_type per_Token --quant_dtype fp8"),
)
Row = dict[str, object]


@dataclass(frozen=True)
class Part:
    """A part of the check: what it printed as markdown, and whether it held."""

    title: str
    text: str
    held: bool


def command(title: str, arguments: Sequence[str], limit_s: float) -> Part:
    """Run a command of this project; what it printed on standard output is the part's text."""
    print(f"{title} (at most {limit_s:.0f} s) ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Part(title, f"not done within {limit_s:g} s", held=False)
    seconds = time.monotonic() - started
    text = f"{done.stdout.strip()}\n\nexit code {done.returncode}, {seconds:.0f} s"
    return Part(title, text, held=done.returncode == 0)


def spin(us: float, backend: str) -> object:
    """Launch a kernel of a known length."""
    import gpu_spin

    kernel = gpu_spin.spin_hip if backend == "hip" else gpu_spin.spin_cuda
    return kernel[(1,)](int(us * 1e3) // gpu_spin.NS_A_TICK[backend])


def clocks(backend: str) -> Part:
    """Each clock against kernels of a known length: medians of seven measurements, and spread."""
    rows: list[Row] = []
    held = True
    for clock in ("event", "graph", "profiler"):
        for us in SPINS_US:
            plan = Plan(clock=clock, cache="warm", controls=False)
            found = sorted(
                float(measure(spin, (us, backend), plan=plan)[1]) for _ in range(REPEATS)
            )
            median = quantile(found, 0.5)
            # A launch ends up to a microsecond after its kernel does.
            held &= abs(median - us) <= max(1.5, 0.01 * us)
            rows.append(
                {
                    "clock": clock,
                    "kernel us": us,
                    "median us": median,
                    "least us": found[0],
                    "most us": found[-1],
                    "error": f"{median / us - 1:+.2%}",
                }
            )
    return Part("clocks against kernels of a known length", markdown(rows), held)


def shares(results: Sequence[Result], peaks: Peaks | None) -> Iterator[Row]:
    """Of each candidate of each result: time, rates, and their share of the card's ceilings."""
    for result in results:
        dtype = arithmetic(result)
        for name, quantities in columns.by_candidate(result.row).items():
            if "us" not in quantities:
                continue
            share = share_of_limit(quantities, peaks, dtype) if peaks else math.nan
            yield {
                "case": result.planned.id.partition("::")[2],
                "candidate": name,
                "us": _number(quantities["us"]),
                "TFLOPS": _number(quantities.get("TFLOPS")),
                "TB/s": _number(quantities.get("TB/s")),
                "share of limit": "" if math.isnan(share) else f"{share:.0%}",
                "status": result.status,
            }


def _number(value: Any) -> object:  # noqa: ANN401 - a column's value
    """What a column of times or rates holds, as one number."""
    return value["median_us"] if is_timing(value) else value


def large(store: str) -> Part:
    """Large shapes, through ``optest run``, with shares of what ``optest peaks`` measured."""
    parts = [
        command(
            f"{file} {words}",
            ["-m", "optest.cli.main", "run", f"op_tests/{file}", "--store", store, "--quiet", "--",
             *words.split()],
            LARGE_S,
        )
        for file, words in LARGE
    ]  # fmt: skip
    with Store.open(store) as opened:
        runs = opened.runs(len(LARGE))
        results = [result for run in reversed(runs) for result in opened.results(run.id)]
        peaks = opened.peaks(runs[0].facts.place) if runs else None
    text = markdown([*shares(results, peaks)])
    failed = [f"{part.title}: {part.text.splitlines()[-1]}" for part in parts if not part.held]
    return Part("large shapes", "\n\n".join([text, *failed]), held=not failed and bool(results))


def main() -> int:
    device = get_gfx_runtime()
    if not device.is_gpu:
        print("scripts/gpu_check: no GPU here, nothing was checked", file=sys.stderr)
        return 2
    run = ("-m", "optest.cli.main")
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/gpu.db"
        smoke = (*run, "run", "op_tests", "--smoke", "--check", "--quiet", "--store", store)
        parts = [
            command("ceilings", [*run, "peaks", "--store", store], PEAKS_S),
            command("tests marked gpu", ["-m", "pytest", "-q", "-m", "gpu", "tests"], TESTS_S),
            clocks("hip" if device.startswith("gfx") else "cuda"),
            command("smoke shapes of every op test", smoke, SMOKE_S),
            large(store),
        ]
    page = ROOT / "docs/gpu" / f"{device}.md"
    page.parent.mkdir(exist_ok=True)
    sections = [f"# {device}\n\n{device.device_name}, {time.strftime('%Y-%m-%d')}"]
    sections += [f"## {part.title}\n\n{part.text}" for part in parts]
    page.write_text("\n\n".join(sections) + "\n", "utf-8")
    for part in parts:
        print(f"{'held' if part.held else 'DID NOT HOLD'}: {part.title}")
    print(f"tables: {page.relative_to(ROOT)}")
    return 0 if all(part.held for part in parts) else 1


if __name__ == "__main__":
    sys.exit(main())
