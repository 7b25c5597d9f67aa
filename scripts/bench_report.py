"""A report of 20,000 rows: how large its page is, how fast it opens and sorts in a browser.

Prints a markdown table and exits 1 where a median is above its bar. Needs Debian's chromium (or
another Chromium on PATH) and playwright (scripts/setup test).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bars import Row, at_least, finish

from optest.report import document, history
from optest.report.chosen import Chosen
from optest.store.records import Ceiling, Peaks, Place, Planned, Result, Run, RunFacts

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROWS, PAST = 20_000, 10
OPEN_BAR_S, SORT_BAR_S, SIZE_BAR_MB = 2.0, 2.0, 15.0
HERE = Place("bench", "gfx942", "A card", "6.4", {"torch": "2.13", "triton": "3.9"})
PEAKS = Peaks(HERE, 0.0, (Ceiling("read", "memory", 0, 4e12), Ceiling("matrix", "bf16", 0, 1e15)))
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
# Two frames: the first draws what the click changed, the second begins when that is on the screen.
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
TIMED = f"""async () => {{{{
  const started = performance.now();
  {{work}}
  await {SETTLED};
  return (performance.now() - started) / 1000;
}}}}"""
SORT = "document.querySelectorAll('th button')[{}].click();"
SHOW = """
document.querySelector('section.function').scrollIntoView();
while (!document.querySelector('svg.plot .mark')) await new Promise((done) => setTimeout(done, 5));
"""
FILTER = """
const input = document.querySelector('input[type=search]');
input.value = 'm>100 us<5000 bf16';
input.dispatchEvent(new Event('input'));
"""


def timing(median_us: float, draws: random.Random) -> dict[str, object]:
    samples = [median_us * (1.0 + draws.gauss(0.0, 0.02)) for _ in range(30)]
    return {
        "median_us": median_us,
        "samples_us": samples,
        "ci_us": [0.99 * median_us, 1.01 * median_us],
        "n": 30,
        "clock": "graph",
        "cache": "cold",
    }


def results() -> list[Result]:
    """Ordinary rows of one test function with two candidates; one in a thousand failed."""
    draws = random.Random(0)  # noqa: S311 - rows to show, no secret
    out = []
    for position in range(ROWS):
        m, n, k = draws.choice((1, 16, 256, 4096)), 64 * (position % 100 + 1), 64 + position
        arguments = {"m": m, "n": n, "k": k, "dtype": "bf16"}
        words = "-".join(f"{name}={value}" for name, value in arguments.items())
        unit = Planned(
            f"test_gemm.py::test_gemm[{words}]", "op_tests/test_gemm.py", "test_gemm", arguments
        )
        row: dict[str, object] = {"gfx": HERE.gfx}
        for candidate in ("triton", "torch"):
            us = draws.lognormvariate(5.0, 1.0)
            verdict = {"value": 0.0, "status": "pass", "reason": "", "tolerance": {}, "counts": {}}
            row |= {
                f"{candidate} us": timing(us, draws),
                f"{candidate} TFLOPS": 2e-6 * m * n * k / us,
                f"{candidate} TB/s": 2e-6 * (m * n + n * k + m * k) / us,
                f"{candidate} err": verdict,
            }
        failed = position % 1000 == 7
        status, reason = ("failed", "triton: 1 % is off") if failed else ("passed", "")
        out.append(Result(unit, status, reason, reason * 40, row=row, place=HERE))
    return out


def chosen() -> Chosen:
    """The run, its ceilings and a past of each case."""
    found = results()
    draws = random.Random(1)  # noqa: S311 - the same
    runs = [
        Run(f"run-{n}", RunFacts(f"{n:040x}", place=HERE), "complete", 86_400.0 * n, None)
        for n in range(PAST)
    ]
    medians = {
        (history.key_of(result), f"{candidate} us"): {
            n: result.row[f"{candidate} us"]["median_us"] * draws.gauss(1.0, 0.01)
            for n in range(PAST)
        }
        for result in found
        for candidate in ("triton", "torch")
    }
    past = history.History(runs, medians)
    return Chosen([runs[-1]], [found], {(HERE.gfx, HERE.device): PEAKS}, past)


def browsing(browser: Browser, page: Path, repeats: int) -> list[Row]:
    """Open, sort by a number and by a text, filter: each until it is on the screen."""
    opening, showing, sorting, wording, filtering = [], [], [], [], []
    for _ in range(repeats):
        tab = browser.new_page()
        started = time.perf_counter()
        tab.goto(page.as_uri())
        tab.evaluate(f"async () => {{ await {SETTLED}; }}")
        opening.append(time.perf_counter() - started)
        names = tab.locator("section.function th button").all_text_contents()
        by_time, by_word = (SORT.format(names.index(name)) for name in ("triton us", "status"))
        for taken, work in (
            (showing, SHOW),
            (sorting, by_time),
            (wording, by_word),
            (filtering, FILTER),
        ):
            taken.append(tab.evaluate(TIMED.format(work=work)))
        assert tab.locator("th[aria-sort=ascending]").all_text_contents() == ["status"]
        tab.close()
    return [
        Row("opening the page", "s", opening, OPEN_BAR_S),
        Row("going to its pictures", "s", showing, OPEN_BAR_S),
        Row("sorting by a number", "s", sorting, SORT_BAR_S),
        Row("sorting by a text", "s", wording, SORT_BAR_S),
        Row("filtering, pictures drawn anew", "s", filtering, SORT_BAR_S),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=at_least(1), default=5, help="pages opened (5)")
    repeats = parser.parse_args().repeats
    program = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if program is None or importlib.util.find_spec("playwright") is None:
        sys.exit("bench_report: needs chromium (apt-get install chromium) and scripts/setup test")
    from playwright.sync_api import sync_playwright

    about = chosen()
    started = time.perf_counter()
    text = document.page(about)
    writing = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder, "report.html")
        page.write_text(text, "utf-8")
        # As root Chromium refuses its sandbox; the page is our own.
        words = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=words)
        rows = [
            Row("making the page", "s", [writing], None),
            Row("its size", "MB", [page.stat().st_size / 1e6], SIZE_BAR_MB),
            *browsing(browser, page, repeats),
        ]
        browser.close()
    print(f"A report of {ROWS:,} rows with two candidates, {PAST} earlier runs:\n")
    finish(rows)


if __name__ == "__main__":
    main()
