"""Medians of timings alone: what a history over many runs needs, without samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from optest.store import columns
from optest.store.records import GOOD
from optest.store.schema import candidates, cases, measures, places
from optest.store.text import restored

_TIMED = (
    sa.select(
        cases.c.file,
        cases.c.id,
        cases.c.node,
        places.c.host,
        places.c.gfx,
        places.c.device,
        candidates.c.name,
        measures.c.quantity,
        measures.c.value,
    )
    .join_from(cases, measures, measures.c.case_number == cases.c.number)
    .join(candidates, candidates.c.number == measures.c.candidate_number)
    .join(places, places.c.number == cases.c.place_number)
    .where(
        cases.c.run_number == sa.bindparam("of_run"),
        cases.c.status.in_(GOOD),
        measures.c.kind == "timing",
        measures.c.value > 0,
    )
)


@dataclass(frozen=True)
class Median:
    """One timing of one case of a run.

    Attributes:
        unit: file, id and kind of node of the case.
        machine: host, arch and device that it ran on.
        column: as the table of the op test calls it: ``cpp us``.
        value_us: the median in microseconds.
    """

    unit: tuple[str, str, str]
    machine: tuple[str, str, str]
    column: str
    value_us: float


def of_run(connection: sa.Connection, run_number: int) -> Sequence[Median]:
    """Every timing of a run's good cases, in no order."""
    return [
        Median(
            (restored(row[0]), restored(row[1]), restored(row[2])),
            (restored(row[3]), restored(row[4]), restored(row[5])),
            columns.joined(restored(row[6]), restored(row[7])),
            row[8],
        )
        for row in connection.execute(_TIMED, {"of_run": run_number})
    ]
