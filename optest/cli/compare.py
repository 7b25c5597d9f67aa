"""``optest compare``: is head faster than base, where, and is it still right."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optest.cli.sweep_options import StoreUrl, errors_are_words, prints, store_at
from optest.errors import UsageError
from optest.log import logger

if TYPE_CHECKING:
    from optest.compare.comparison import Comparison

_FAILED = 1
_LEAST, _MOST = 0.5, 1000.0  # per cent of a threshold; a smaller change is never called one
Threshold = Annotated[
    str, typer.Option(help="Per cent by which a case may become slower.", metavar="PERCENT")
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="The markdown page.", metavar="FILE")
]
Json = Annotated[
    Path | None, typer.Option("--json", help="Everything, for programs.", metavar="FILE")
]
Junit = Annotated[Path | None, typer.Option("--junit", help="JUnit XML.", metavar="FILE")]
Github = Annotated[
    bool, typer.Option("--github", help="Print annotations for a GitHub workflow too.")
]
_SIDE = "a run (its id, latest, a commit, a branch), or a file: JSON lines or markdown tables."


def compare(  # noqa: PLR0913, PLR0917 - a parameter an option
    base: Annotated[str, typer.Argument(help=f"What was before: {_SIDE}", metavar="BASE")],
    head: Annotated[str, typer.Argument(help=f"What is now: {_SIDE}", metavar="HEAD")],
    threshold: Threshold = "5",
    drift: Annotated[
        str | None,
        typer.Option(
            help="Per cent (one standard deviation) by which two runs of the same code differ on "
            "this machine; else it is found from the two, and at least 1.5.",
            metavar="PERCENT",
        ),
    ] = None,
    across: Annotated[
        bool, typer.Option("--across", help="Compare what was not measured alike, and say so.")
    ] = False,
    output: Output = None,
    json: Json = None,
    junit: Junit = None,
    github: Github = False,
    store: StoreUrl = None,
) -> None:
    """Compare two runs; exit 1 where something is newly wrong or slower beyond the threshold."""
    from optest.compare.judge import Rule, compared
    from optest.compare.sources import Sources
    from optest.store import Store

    with errors_are_words():
        rule = Rule(
            limit_of(threshold),
            None if drift is None else _percent("--drift", drift, 0.0),
            across,
        )
        with closing(Sources(lambda: Store.open(store_at(store), make=False))) as sources:
            made = compared(sources.side(base), sources.side(head), rule)
        written(made, output, json, junit)
        told = shown(made, page=output is None, github=github)
    raise typer.Exit(made.exit_code if told else _FAILED)


def limit_of(threshold: str) -> float:
    """What ``--threshold`` says; 0.05 is 5 %.

    Raises:
        UsageError: it is no number of per cent from 0.5 to 1000.
    """
    return _percent("--threshold", threshold, _LEAST)


def _percent(option: str, text: str, least: float) -> float:
    """``5`` and ``5%`` are 0.05.

    Raises:
        UsageError: it is no number of per cent from ``least`` to 1000.
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*%?", text.strip())
    value = float(found[1]) if found else -1.0
    if not least <= value <= _MOST:
        raise UsageError(f"{option} {text!r}: expected per cent from {least:g} to 1000, as 5 or 5%")
    return value / 100.0


def written(made: Comparison, output: Path | None, json: Path | None, junit: Path | None) -> None:
    """Write the files that were asked for.

    Raises:
        UsageError: one cannot be written.
    """
    from optest.compare import as_json, as_markdown
    from optest.report import atomic, compare_junit

    if output is not None:
        atomic.write("--output", output, as_markdown.page(made))
    if json is not None:
        atomic.write("--json", json, as_json.document(made))
    if junit is not None:
        atomic.write("--junit", junit, compare_junit.document(made))


def shown(made: Comparison, *, page: bool, github: bool) -> bool:
    """Print the page and the annotations; whether standard output took all of it."""
    from optest.compare import annotations, as_markdown

    for line in made.differences:
        logger.warning("not measured alike: %s", line)
    lines = [as_markdown.page(made)] if page else []
    if github:
        lines += annotations.commands(made)
    return prints(lines)
