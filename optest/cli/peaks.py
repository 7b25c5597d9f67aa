"""``optest peaks``: what this machine can do at most."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from optest.cli.sweep_options import StoreUrl, errors_are_words, prints, store_at
from optest.log import logger

if TYPE_CHECKING:
    from optest.store import Store
    from optest.store.records import Peaks

_FAILED = 1


def peaks(
    store: StoreUrl = None,
    budget: Annotated[
        float, typer.Option(help="Seconds for each ceiling.", min=0.001, max=600.0)
    ] = 0.5,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory to use at most, as 4GiB (a quarter of what is free).", metavar="SIZE"
        ),
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Measure nothing: print what the store has.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of the table.")] = False,
) -> None:
    """Measure bandwidth of each memory level, matrix rates and the cost of a launch; keep them.

    Published peaks of known cards stand beside. Exit code 1 where nothing could be measured, or
    where --stored finds nothing.
    """
    from optest.cli.sizes import nbytes
    from optest.store import Store

    with errors_are_words():
        room = None if memory is None else nbytes("--memory", memory)
        with Store.open(store_at(store), make=not stored) as opened:
            found = _kept(opened) if stored else _measured(opened, budget, room)
    if found is None:
        raise typer.Exit(_FAILED)
    if not prints([_json(found) if as_json else _table(found)]):
        raise typer.Exit(_FAILED)


def _kept(store: Store) -> Peaks | None:
    from optest.sweep.places import here

    found = store.peaks(here())
    if found is None:
        sys.stderr.write(f"optest: {store} has no ceilings of this machine: optest peaks\n")
    return found


def _measured(store: Store, budget_s: float, memory_bytes: int | None) -> Peaks | None:
    from optest.peaks.course import measure_all
    from optest.peaks.effort import Effort
    from optest.sweep.places import here

    effort = Effort(budget_s=budget_s, memory_bytes=memory_bytes)
    found, missing = measure_all(here(), effort, lambda what: logger.info("%s ...", what))
    for each in missing:
        logger.warning("%s", each)
    if not found.ceilings:
        logger.error("nothing could be measured")
        return None
    store.record_peaks(found)
    return found


def _table(found: Peaks) -> str:
    from optest.peaks.table import markdown

    return markdown(found)


def _json(found: Peaks) -> str:
    from optest.peaks import published

    card = published.of(found.place)
    record = asdict(found)
    for each, ceiling in zip(record["ceilings"], found.ceilings, strict=True):
        each["published"] = None if card is None else published.value_of(card, ceiling)
    record["source"] = "" if card is None else card.source
    return json.dumps(record, indent=1) + "\n"
