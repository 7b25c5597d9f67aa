"""``optest export``: the results of a run as a file that other programs read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optest.cli.sweep_options import StoreUrl, errors_are_words, store_at
from optest.errors import UsageError
from optest.log import logger

if TYPE_CHECKING:
    from optest.store import Store
    from optest.store.records import Run


def export(
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="The file to write: *.jsonl (whole results), *.csv or *.parquet (flat); of asv "
            "its results folder.",
            metavar="FILE",
        ),
    ],
    run: Annotated[
        str,
        typer.Argument(
            help="latest, a run's id or its beginning, a commit or a branch.", metavar="[RUN]"
        ),
    ] = "latest",
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="For a dashboard: github-action-benchmark or asv. Else the suffix decides.",
            metavar="NAME",
        ),
    ] = None,
    store: StoreUrl = None,
) -> None:
    """Write a run's results to a file: JSON lines, CSV, Parquet, or what a dashboard reads."""
    from optest.store import Store

    with errors_are_words():
        write = _writer(form)
        with Store.open(store_at(store), make=False) as opened:
            found = opened.find(run)
            count = write(opened, found, output)
    if found.state == "running":
        logger.warning("run %s has not ended: %s holds what it has so far", found.id, output)
    logger.info("run %s: %d lines in %s", found.id, count, output)


def _writer(form: str | None) -> Callable[[Store, Run, Path], int]:
    """What writes the form: the run as it is in the store to a path, and says how many lines."""
    from optest.store.export import export as by_suffix

    writers = {None: by_suffix, "github-action-benchmark": _for_the_action, "asv": _for_asv}
    if form not in writers:
        known = ", ".join(name for name in writers if name)
        raise UsageError(f"--format {form!r}: expected {known}, or nothing: the suffix decides")
    return writers[form]


def _for_the_action(store: Store, run: Run, path: Path) -> int:
    from optest.compare import benchmark_action, sources
    from optest.report import atomic

    entries = benchmark_action.entries(sources.of_run(store, run))
    atomic.write("--output", path, benchmark_action.document(entries))
    return len(entries)


def _for_asv(store: Store, run: Run, path: Path) -> int:
    from optest.compare import asv, sources
    from optest.report import atomic

    side = sources.of_run(store, run)
    files = asv.files(side, run, _text_of(path / asv.BENCHMARKS))
    for name, text in files.items():
        atomic.write("--output", path / name, text)
    return sum(len(case.cells) for case in side.cases)


def _text_of(path: Path) -> str | None:
    """What a file holds; None where there is none."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: it cannot be read ({type(error).__name__})") from None
