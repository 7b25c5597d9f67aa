"""``optest lint``: op tests held to the standard they are written by."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from optest.errors import UsageError
from optest.log import logger

_USAGE = 2


def lint(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files and folders.", metavar="PATH...")
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option(help="Only these codes, or groups such as OT5.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="All but these codes.")] = None,
    format_: Annotated[str, typer.Option("--format", help="text, json or github.")] = "text",
    explain: Annotated[
        str | None, typer.Option(help="What a rule asks for, and why.", metavar="CODE")
    ] = None,
) -> None:
    """Hold op tests to the standard: one line for each place that breaks a rule.

    Exit code 1 where a rule is broken, 2 where a file cannot be read or is no Python.
    """
    try:
        if explain is not None:
            _explain(explain)
        else:
            raise typer.Exit(_lint(paths or [], select or [], ignore or [], format_))
    except UsageError as error:
        logger.error("%s", error)
        raise typer.Exit(_USAGE) from None


def _explain(code: str) -> None:
    from optest.lint import catalogue
    from optest.lint.document import explanation

    sys.stdout.write(explanation(catalogue.named(code)))


def _lint(paths: list[Path], select: list[str], ignore: list[str], format_: str) -> int:
    from optest.lint import catalogue
    from optest.lint import run as linter
    from optest.lint.format import FORMATS

    if not paths:
        raise UsageError("no path is given: expected files or folders, such as op_tests")
    if format_ not in FORMATS:
        raise UsageError(f"--format {format_!r}: expected one of {', '.join(FORMATS)}")
    report = linter.lint(paths, catalogue.chosen(select, ignore))
    sys.stdout.write(FORMATS[format_](report))
    for path in report.passed_over:
        logger.warning(
            "%s is not held to the rules: an op test is named test_*.py and imports benchmark, "
            "run_perftest or checkAllclose",
            path,
        )
    logger.info("%d op tests, %d violations", report.linted, len(report.violations))
    return report.exit_code
