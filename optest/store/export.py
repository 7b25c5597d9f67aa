"""A run as a file: JSON lines whole; CSV and Parquet flat, a line for each candidate of a case."""

from __future__ import annotations

import csv
import io
import json
import math
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from optest.errors import StoreError
from optest.store.lines import Line, lines_of
from optest.store.records import Result, Run
from optest.store.text import finite, spreadsheet_safe

if TYPE_CHECKING:
    from optest.store.store import Store


def export(store: Store, run: Run, path: Path) -> int:
    """Write every result of ``run`` to ``path``, in the format that its suffix names.

    The file is there whole or not at all: an older one is replaced at the end.

    Args:
        store: what holds the run.
        run: as ``store.find`` gives it.
        path: ends in ``.jsonl``, ``.csv`` or ``.parquet``.

    Returns:
        How many lines, or rows, were written.

    Raises:
        StoreError: the suffix is another, pyarrow is not there, or the file cannot be written.
    """
    write = _FORMATS.get(path.suffix.lower())
    if write is None:
        raise StoreError(f"{path}: expected a file named *{', *'.join(_FORMATS)}")
    with _replacing(path) as file:
        return write(run, store.results(run.id), file)


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file beside ``path`` that takes its place where nothing was raised."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as file:
            yield file
        beside.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        beside.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path}: it cannot be written ({error.strerror or error}): give another file"
    )


def _jsonl(run: Run, results: Iterator[Result], file: IO[bytes]) -> int:
    facts = {"id": run.id, "state": run.state, "started": run.started, "ended": run.ended}
    head = finite({**facts, **_fields(run.facts), "place": _fields(run.facts.place)})
    count = 0
    for result in results:
        planned = {**_fields(result.planned), "id": result.planned.id}
        line = {**_fields(result), "planned": planned, "place": _fields(result.place)}
        file.write(json.dumps({"run": head, **line}, allow_nan=False).encode() + b"\n")
        count += 1
    return count


def _fields(record: object) -> dict[str, Any]:
    return dict(vars(record))


def _csv(run: Run, results: Iterator[Result], file: IO[bytes]) -> int:
    lines = [line for result in results for line in lines_of(run, result)]
    names = _names(lines)
    text = io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="")
    writer = csv.writer(text)
    writer.writerow([spreadsheet_safe(name) for name in names])
    writer.writerows([_cell(line.get(name)) for name in names] for line in lines)
    text.flush()
    text.detach()
    return len(lines)


def _cell(value: object) -> object:
    return spreadsheet_safe(value) if isinstance(value, str) else value


def _names(lines: list[Line]) -> list[str]:
    return list(dict.fromkeys(name for line in lines for name in line))


def _parquet(run: Run, results: Iterator[Result], file: IO[bytes]) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise StoreError("a .parquet file needs pyarrow: pip install 'optest[report]'") from None
    lines = [line for result in results for line in lines_of(run, result)]
    table = {name: _column([line.get(name) for line in lines]) for name in _names(lines)}
    pq.write_table(pa.table(table), file)
    return len(lines)


def _column(values: list[Any]) -> list[Any]:
    """Values of one type, which Parquet asks for: numbers stay numbers where all are."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} or (kinds <= {int} and all(_is_long(v) for v in values if v is not None)):
        return values
    if kinds <= {int, float}:
        return [None if value is None else _real(value) for value in values]
    return [None if value is None else _word(value) for value in values]


def _is_long(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _real(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _word(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


_FORMATS: dict[str, Callable[[Run, Iterator[Result], IO[bytes]], int]] = {
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".parquet": _parquet,
}
