"""``optest run``: op tests as they are, each case apart, on one machine or a cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optest.cli.sweep_options import (
    Address,
    Arch,
    ExecutorName,
    File,
    Function,
    Guards,
    Keep,
    MemoryLimit,
    Paths,
    Smoke,
    StoreUrl,
    Timeout,
    errors_are_words,
    files_of,
    prints,
    request,
    store_at,
)
from optest.cli.words import words
from optest.errors import UsageError
from optest.log import logger

if TYPE_CHECKING:
    from optest.sweep.progress import Progress
    from optest.sweep.request import Request
    from optest.sweep.sweep_outcome import Outcome
    from optest.sweep.tables import Table

_FAILED = 1


def run(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    paths: Paths = None,
    smoke: Smoke = False,
    check: Annotated[
        bool, typer.Option("--check", help="Correctness only, under full guards.")
    ] = False,
    guards: Guards = None,
    keep: Keep = None,
    function: Function = None,
    file: File = None,
    arch: Arch = None,
    jobs: Annotated[
        int | None, typer.Option(help="Cases at a time, each on its cores or its GPU.", min=1)
    ] = None,
    timeout: Timeout = None,
    memory_limit: MemoryLimit = None,
    output_limit: Annotated[
        str | None, typer.Option(help="What a case may print (64MiB).", metavar="SIZE")
    ] = None,
    store: StoreUrl = None,
    resume: Annotated[
        str | None,
        typer.Option(
            help="Go on with a run: its id, its commit, latest; alone, the last unfinished one.",
            metavar="[RUN]",
        ),
    ] = None,
    executor: ExecutorName = None,
    address: Address = None,
    junit: Annotated[
        Path | None, typer.Option(help="Also write JUnit XML.", metavar="FILE")
    ] = None,
    summary: Annotated[
        bool, typer.Option(help="Append to GITHUB_STEP_SUMMARY where that is set.")
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Tables and failures only.")] = False,
) -> None:
    """Run op tests, each case in a process that may die without harm to the others.

    What follows -- goes to every op test. Exit code 0: all passed, or not for this card. 1: a case
    failed, crashed or hung, or a file could not be run. 2: usage. 5: no case ran. 130: interrupted.
    """
    with errors_are_words():
        asked = request(
            paths,
            memory_limit,
            output_limit,
            words=words(context),
            smoke=smoke or None,
            mode="check" if check else None,
            guards=guards,
            keep=keep,
            function=function,
            file=file,
            arch=arch,
            jobs=jobs,
            timeout_s=timeout,
            executor=executor,
            address=address,
        )
        reports = _Reports(junit, wanted=summary)
        outcome, at = _sweep(asked, store, resume, quiet=quiet)
        code = _told(outcome, at, reports, quiet=quiet)
    raise typer.Exit(code)


def _sweep(
    asked: Request, url: str | None, resume: str | None, *, quiet: bool
) -> tuple[Outcome, str]:
    """What came of it, and the store as a command names it: empty for the default one."""
    from optest.store import Store
    from optest.sweep import executors
    from optest.sweep import resume as resuming
    from optest.sweep.run import Means, sweep

    with Store.open(store_at(url), make=resume is None) as store:
        run = None if resume is None else resuming.found(store, resume)
        if run is not None:
            asked = resuming.request_of(run, asked)
        asked = asked.settled()
        files = files_of(asked)
        executor = executors.made(asked, Path.cwd())
        means = Means(Path.cwd(), store, executor, _progress(quiet=quiet))
        return sweep(asked, files, means, run), str(store) if url is not None else ""


def _progress(*, quiet: bool) -> Progress:
    from optest.sweep.progress import Plain, Quiet

    if quiet:
        return Quiet(sys.stderr)
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from rich.console import Console

        from optest.sweep.live import Display

        return Display(Console(file=sys.stderr))
    return Plain(sys.stderr)


def _told(outcome: Outcome, store: str, reports: _Reports, *, quiet: bool) -> int:
    """Tables, last words and reports; the exit code."""
    from optest.line import one_line
    from optest.sweep.closing import closing
    from optest.sweep.tables import tables

    made = tables(outcome.results)
    printed = prints(f"\n{one_line(t.title)} summary (markdown):\n{t.markdown}\n\n" for t in made)
    sys.stderr.write(closing(outcome, store, quiet=quiet))
    well = reports.written(outcome, made) and printed
    return outcome.exit_code if well else outcome.exit_code or _FAILED


class _Reports:
    """What is written beside the tables; looked at before anything runs.

    Raises:
        UsageError: a folder that a report is to stand in cannot be made, or the file is one that
            a report must not take the place of.
    """

    def __init__(self, junit: Path | None, *, wanted: bool) -> None:
        from optest import settings

        self._junit = junit
        self._summary = settings.get_path("GITHUB_STEP_SUMMARY") if wanted else None
        if junit is not None:
            try:
                junit.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"--junit {junit}: {error.strerror}") from None
            if junit.is_dir():
                raise UsageError(f"--junit {junit}: expected a file, this is a folder")
            if _is_of_another_kind(junit):
                raise UsageError(
                    f"--junit {junit}: this file is there and holds no XML: name another, or "
                    "remove it"
                )

    def written(self, outcome: Outcome, tables: list[Table]) -> bool:
        """Write them; whether all could be. What could not is said."""
        from optest.report import atomic, junit, step_summary

        well = True
        try:
            if self._junit is not None:
                atomic.write("--junit", self._junit, junit.document(outcome))
        except UsageError as error:
            logger.error("%s", error)
            well = False
        try:
            if self._summary is not None:
                step_summary.append(self._summary, outcome, tables)
        except UsageError as error:
            logger.error("%s", error)
            well = False
        return well


def _is_of_another_kind(path: Path) -> bool:
    """Whether it is a file, such as an op test, that no JUnit XML may be written over."""
    if not path.is_file():  # not there yet, or a pipe, which must not be opened to look
        return False
    try:
        with path.open("rb") as file:
            return file.read(1) not in (b"", b"<")
    except OSError:  # said when it is written
        return False
