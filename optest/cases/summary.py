"""``summarize``: one markdown table per test function, on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from optest.cases import plausible, table
from optest.cases import session as sessions
from optest.cases.row import Row
from optest.cases.session import Failure
from optest.errors import UsageError
from optest.log import logger
from optest.timing import Timing

if TYPE_CHECKING:
    import pandas as pd

    from optest.cases.session import Session


def summarize(name: str, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Print the rows as one markdown table under ``name`` and return them as a DataFrame.

    Rows of cases that did not run (filtered out, or collected) are left out. Rows of two test
    functions make no sense in one table: they are printed apart, and the process exits 1.

    Raises:
        UsageError: a row is no mapping.
    """
    import pandas as pd

    session = sessions.current()
    every = [_mapping(row) for row in rows]
    shown = [row for row in every if not isinstance(row, Row) or row.ran]
    _printed(session, every)
    if session.mode == "collect":
        session.tables.update({row.case_id: str(name) for row in every if isinstance(row, Row)})
    _count_those_of_other_processes(session, every)
    groups = _by_function(shown)
    if len(groups) > 1:
        session.note_failure(_advice(name, list(groups)))
        logger.error("%s", _advice(name, list(groups)))
    for function, group in groups.items():
        _print(name if len(groups) == 1 else f"{name} ({function})", group)
    frame: pd.DataFrame = pd.DataFrame(shown)
    return frame


def print_unfinished(session: Session) -> None:
    """Tables of what no ``summarize`` has shown yet, after an interrupt."""
    rows = [row for row in (reference() for reference in session.unprinted) if row is not None]
    for function, group in _by_function(rows).items():
        _print(f"{function} (interrupted)", group)


def _mapping(row: object) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise UsageError(
            f"summarize: got a row of type {type(row).__name__}, expected the dict that a "
            "@benchmark function returns"
        )
    return row


def _count_those_of_other_processes(session: Session, rows: list[Mapping[str, Any]]) -> None:
    """A pool's worker ends without judging its cases; their rows still say what became of them."""
    for row in rows:
        if isinstance(row, Row) and row.status in ("failed", "error") and not row.judged:
            row.judged = True
            session.failures.append(Failure(row.case_id, row.status, "in another process"))
            session.totals[f"{row.status} in other processes"] += 1


def _printed(session: Session, rows: list[Mapping[str, Any]]) -> None:
    done = {id(row) for row in rows}
    session.unprinted[:] = [ref for ref in session.unprinted if id(ref()) not in done]


def _by_function(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Rows apart where function or left columns differ; plain dicts go with the first group."""
    groups: dict[tuple[str, tuple[str, ...]], list[Mapping[str, Any]]] = {}
    for row in rows:
        first = next(iter(groups), ("rows", ()))
        key = (row.function, row.arguments) if isinstance(row, Row) else first
        groups.setdefault(key, []).append(row)
    out: dict[str, list[Mapping[str, Any]]] = {}
    for (function, parameters), group in groups.items():
        label = function if function not in out else f"{function}({', '.join(parameters)})"
        out[label] = group
    return out


def _advice(name: str, functions: list[str]) -> str:
    return (
        f"summarize({name!r}): rows of {', '.join(functions)} do not belong in one table and are "
        "printed apart: call summarize once for each test function"
    )


def _print(name: str, rows: list[Mapping[str, Any]]) -> None:
    plausible.flag(name, rows)
    sys.stdout.write(f"\n{name} summary (markdown):\n{table.markdown(rows)}\n\n")
    sys.stdout.flush()
    contended = [
        column
        for column in table.columns_of(rows)
        if any(isinstance(row.get(column), Timing) and row[column].contended for row in rows)
    ]
    if contended:
        logger.warning(
            "%s: %s: most samples were preempted by other processes; the times are upper bounds",
            name,
            ", ".join(contended),
        )
