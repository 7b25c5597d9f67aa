"""``optest rank``: which candidate is the fastest, case by case."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from optest.cli.sweep_options import StoreUrl, errors_are_words, prints, store_at

_FAILED = 1


def rank(
    run: Annotated[
        str,
        typer.Argument(
            help="A run (its id, latest, a commit, a branch), or a file: JSON lines or markdown "
            "tables.",
            metavar="[RUN]",
        ),
    ] = "latest",
    csv: Annotated[
        Path | None, typer.Option("--csv", help="A case a line, for programs.", metavar="FILE")
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="The same with all that is known.", metavar="FILE")
    ] = None,
    store: StoreUrl = None,
) -> None:
    """Print per case the fastest right candidate, and those that are as fast within the noise."""
    from optest.compare import rank as ranking
    from optest.compare.sources import Sources
    from optest.report import atomic
    from optest.store import Store

    with errors_are_words():
        with closing(Sources(lambda: Store.open(store_at(store), make=False))) as sources:
            side = sources.side(run)
        found = ranking.ranked(side)
        if csv is not None:
            atomic.write("--csv", csv, ranking.rows(found))
        if json is not None:
            atomic.write("--json", json, ranking.document(side.name, found))
        told = prints([ranking.table(found)])
    if not told:
        raise typer.Exit(_FAILED)
