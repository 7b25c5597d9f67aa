"""``optest trace``: one case as a picture of what ran when."""

from __future__ import annotations

import faulthandler
from pathlib import Path
from typing import Annotated

import typer

from optest.cli.sweep_options import Keep, Smoke, errors_are_words
from optest.cli.words import words
from optest.log import logger, once

_FAILED = 1
_STDERR = 2


def trace(
    context: typer.Context,
    case: Annotated[
        str,
        typer.Argument(help="A case's id, or the path of an op test and -k.", metavar="CASE"),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="The file to write: *.json or *.json.gz.", metavar="FILE"
        ),
    ] = Path("trace.json"),
    keep: Keep = None,
    smoke: Smoke = False,
) -> None:
    """Run one case under the profiler and write a Chrome trace, which Perfetto opens.

    What follows -- goes to the op test, which must ask for the case. Exit code 1 where the case
    fails; its trace is written all the same. One that kills its process takes the trace with it:
    where it was is written to standard error.
    """
    given = words(context)
    with errors_are_words():
        from optest import settings
        from optest.errors import UsageError
        from optest.tracing.choice import Asked
        from optest.tracing.record import trace as record

        if smoke and given:
            raise UsageError(f"--smoke, and -- {' '.join(given)}: expected one of the two")
        for warning in settings.validate():
            once(warning)
        faulthandler.enable(_STDERR)
        made = record(Asked(case, keep or "", given, smoke), output, Path.cwd())
    logger.info(
        "%s: %d events of %s; open it in https://ui.perfetto.dev or chrome://tracing",
        made.path,
        made.events,
        made.case,
    )
    for reason in made.reasons:
        logger.error("%s", reason)
    if made.reasons:
        raise typer.Exit(_FAILED)
