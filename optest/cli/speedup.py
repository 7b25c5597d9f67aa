"""``optest speedup``: a task's kernel against its reference."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from optest.errors import UsageError
from optest.log import logger

_FAILED, _USAGE = 1, 2


def speedup(
    task: Annotated[Path, typer.Argument(help="The task's file.", metavar="TASK.PY")],
    pytest_args: Annotated[
        list[str] | None, typer.Argument(help="After --, arguments for pytest.", metavar="PYTEST")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that each stage may take.")] = 600.0,
    build: Annotated[
        bool, typer.Option("--build/--no-build", help="Build kernel and reference first.")
    ] = True,
) -> None:
    """Check a task's kernel, time it, time its reference, and print how they compare.

    Exit code 1 where no speedup may be stated: a build or a test failed, or no correctness test
    checked the shape that is timed. The reason is on standard error.
    """
    from optest.testing.speedup import NoSpeedupError, Request
    from optest.testing.speedup import speedup as run
    from optest.testing.speedup_table import table

    try:
        rows = run(Request(task, tuple(pytest_args or ()), timeout, build))
    except NoSpeedupError as error:
        logger.error("%s", error)
        raise typer.Exit(_FAILED) from None
    except UsageError as error:
        logger.error("%s", error)
        raise typer.Exit(_USAGE) from None
    sys.stdout.write(table(rows) + "\n")
