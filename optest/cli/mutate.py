"""``optest mutate``: do the checks of an op test reject wrong kernels?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optest.errors import UsageError
from optest.log import logger

if TYPE_CHECKING:
    from optest.mutate.command import Options, Plan
    from optest.mutate.result import Report

_FAILED, _USAGE, _NOTHING_RAN = 1, 2, 5


def mutate(  # noqa: PLR0913, PLR0917 - one parameter an option
    paths: Annotated[
        list[Path], typer.Argument(help="Op tests, or folders of them.", metavar="PATH...")
    ],
    full: Annotated[
        bool, typer.Option("--full/--smoke", help="The default sweep, or the SMOKE list.")
    ] = False,
    keep: Annotated[
        str, typer.Option("-k", help="Only cases whose id it matches; * and ? are wild.")
    ] = "",
    budget: Annotated[
        float | None, typer.Option(help="Seconds for each test function.", min=0.0)
    ] = None,
    jobs: Annotated[int, typer.Option(help="Files at a time.", min=1)] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write everything as JSON.", metavar="FILE")
    ] = None,
) -> None:
    """Put wrong results where right ones came out of run_perftest, and see which checks say so.

    Exit code 1 where a case fails unmutated or a gross mutant survives: then the table of survivors
    names the case, the output, and the check that let it through. 5 where nothing was mutated.
    """
    from optest.mutate.command import Options, plans
    from optest.mutate.tables import markdown

    options = Options(full, keep, budget, jobs)
    try:
        made = plans(paths, options)
        report = _with_progress(made, options)
        sys.stdout.write(markdown(report))
        if json_file is not None:
            _write(json_file, report)
    except UsageError as error:
        logger.error("%s", error)
        raise typer.Exit(_USAGE) from None
    if not report.passed:
        raise typer.Exit(_FAILED)
    if not report.trials and not report.gated:
        logger.error("nothing was mutated")
        raise typer.Exit(_NOTHING_RAN)


def _with_progress(made: list[Plan], options: Options) -> Report:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    from optest.mutate.command import run

    columns = (TextColumn("mutating"), BarColumn(), MofNCompleteColumn(), Remaining())
    # The stream itself: what cases print is swallowed by putting another in its place.
    with Progress(*columns, console=Console(file=sys.stderr)) as progress:
        task = progress.add_task("mutating", total=sum(len(each.units) for each in made))
        return run(made, options, lambda count: progress.advance(task, count))


def _write(path: Path, report: Report) -> None:
    try:
        path.write_text(json.dumps(report.to_dict(), indent=1, allow_nan=False) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"--json {path}: it cannot be written ({error.strerror})") from None
