"""``optest new``: an op test to begin with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from optest.errors import UsageError
from optest.log import logger

_USAGE = 2


def new(
    op: Annotated[str, typer.Argument(help="The operator, such as fused_add.", metavar="OP")],
    shape: Annotated[str, typer.Option(help="Its axes, such as m,n,k.", metavar="AXES")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write it; op_tests, made if need be.")
    ] = None,
) -> None:
    """Write test_OP.py, which runs as it is: fill in the reference and the first candidate."""
    from optest.scaffold.op_test import write

    try:
        path = write(op, shape, out)
    except UsageError as error:
        logger.error("%s", error)
        raise typer.Exit(_USAGE) from None
    sys.stdout.write(f"{path}\n")
    logger.info("run it: python %s; then fill in run_torch and run_candidate", path)
