"""``optest report``: runs as one page, or as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optest.cli.sweep_options import StoreUrl, errors_are_words, store_at
from optest.errors import UsageError
from optest.log import logger

_MOST = 200


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="latest, a run's id or its beginning, a commit or a branch; of two, the second is "
            "compared with the first.",
            metavar="[RUN]...",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The page to write, *.html.", metavar="FILE"),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(help="A folder for the pictures alone, as PNG files.", metavar="DIR"),
    ] = None,
    history: Annotated[
        int,
        typer.Option(
            help="Runs of the same cases that the history shows; 0 for none.", min=0, max=_MOST
        ),
    ] = 30,
    store: StoreUrl = None,
) -> None:
    """Write runs as one HTML page that needs no network: tables, pictures, failures, history."""
    with errors_are_words():
        _check(output, png)
        _write(list(runs or ["latest"]), output, png, history, store_at(store))


def _check(output: Path | None, png: Path | None) -> None:
    if output is None and png is None:
        raise UsageError("nothing to write: expected -o FILE.html, --png DIR or both")
    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"-o {output}: a report is a page: expected a name that ends in .html")
    if png is not None:
        from optest.report import png as pictures

        pictures.check(png)


def _write(refs: list[str], output: Path | None, png: Path | None, past: int, at: str) -> None:
    from optest.report import atomic, chosen, document
    from optest.store import Store

    with Store.open(at, make=False) as opened:
        found = chosen.read(opened, refs, past)
    for run in found.runs:
        if run.state == "running":
            logger.warning("run %s has not ended: this is what it has so far", run.id)
    if output is not None:
        text = document.page(found)
        atomic.write("-o", output, text)
        logger.info("%d cases in %s, %.1f MB", found.count, output, len(text) / 1e6)
    if png is not None:
        from optest.report import png as pictures

        written = pictures.write(found, png)
        logger.info("%d pictures in %s", len(written), png)
