"""``optest runs``: what a store holds."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from optest.cli.sweep_options import StoreUrl, errors_are_words, prints, store_at

if TYPE_CHECKING:
    from optest.store.records import Run


_FAILED = 1
_MOST = 1_000_000


def runs(
    store: StoreUrl = None,
    limit: Annotated[
        int, typer.Option("-n", "--limit", help="The newest so many.", min=1, max=_MOST)
    ] = 20,
) -> None:
    """Print the runs of a store as a markdown table, the newest first."""
    from optest.store import Store

    with errors_are_words(), Store.open(store_at(store), make=False) as opened:
        found = opened.runs(limit)
        if not found:
            sys.stderr.write(f"optest: {opened} holds no run yet\n")
            return
        printed = prints([_table(found) + "\n"])
    if not printed:
        raise typer.Exit(_FAILED)


def _table(found: list[Run]) -> str:
    from tabulate import tabulate

    rows = [_row(run) for run in found]
    return tabulate(
        rows,
        headers="keys",
        tablefmt="pipe",
        disable_numparse=True,
        colalign=["right" if name in _NUMBERS else "left" for name in rows[0]],
    )


_NUMBERS = ("cases", "passed", "failed", "not run")


def _row(run: Run) -> dict[str, str]:
    from optest.line import one_line
    from optest.store.records import BAD

    counts = dict(run.totals)
    missing = counts.pop("missing", 0)
    changed = " (changed)" if run.facts.dirty else ""
    return {
        "run": run.id,
        "when": time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        "commit": one_line(f"{run.facts.commit[:12]}{changed}").replace("|", "\\|"),
        "gfx": one_line(run.facts.place.gfx).replace("|", "\\|"),
        "mode": one_line(run.facts.mode).replace("|", "\\|"),
        "cases": str(sum(counts.values()) + missing),
        "passed": str(counts.get("passed", 0)),
        "failed": str(sum(counts.get(status, 0) for status in BAD)),
        "not run": str(missing),
        "state": run.state,
    }
