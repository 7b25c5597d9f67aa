"""The page that GitHub shows of a step: what failed, then the tables, within what it bears."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from optest.errors import UsageError
from optest.line import one_line
from optest.store.records import Result
from optest.sweep.sweep_outcome import Outcome
from optest.sweep.tables import Table
from optest.sweep.words import duration

LIMIT = 1 << 20  # bytes of a step's page; of a longer one GitHub shows nothing
_SPARE = 1 << 10
_LONGEST_TEXT = 4000
_SHOWN = 200
_CUT = "\n\n(The rest does not fit into this page; it is in the log and in the store.)\n"


def markdown(outcome: Outcome, tables: Sequence[Table], limit: int = LIMIT - _SPARE) -> str:
    """The page, in at most ``limit`` bytes; what comes first matters most, tables are never cut."""
    out: list[str] = []
    left = limit - len(_CUT.encode())
    for part in _parts(outcome, tables):
        size = len(part.encode("utf-8", "backslashreplace"))
        if size > left:
            return "".join(out) + (_CUT if limit > len(_CUT) else "")
        out.append(part)
        left -= size
    return "".join(out)


def append(path: Path, outcome: Outcome, tables: Sequence[Table]) -> None:
    """Append the page to the step's file, in what that has left, in one write.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = path.stat().st_size if path.exists() else 0
        page = markdown(outcome, tables, LIMIT - _SPARE - held)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(page.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UsageError(
            f"GITHUB_STEP_SUMMARY={str(path)!r}: it cannot be written ({error.strerror})"
        ) from None


def _parts(outcome: Outcome, tables: Sequence[Table]) -> Iterator[str]:
    yield f"## optest: {_code_free(outcome.totals())}\n\n"
    yield from _facts(outcome)
    yield from _failures(outcome)
    for table in tables:
        yield f"### {_code_free(one_line(table.title))}\n\n{table.markdown}\n\n"
    yield from _notes(outcome)


def _facts(outcome: Outcome) -> Iterator[str]:
    facts = outcome.facts
    words = [
        f"run `{outcome.run}`" if outcome.run else "",
        f"commit `{facts.commit[:12]}`{' (changed)' if facts.dirty else ''}"
        if facts.commit
        else "",
        " ".join(word for word in (facts.place.gfx, facts.place.device) if word),
        duration(outcome.seconds),
    ]
    yield _code_free(" · ".join(word for word in words if word)) + "\n\n"
    if outcome.interrupted:
        yield "**Interrupted: this is what was finished.**\n\n"
    if outcome.fault:
        yield f"**Stopped: {_code_free(one_line(outcome.fault))}**\n\n"


def _failures(outcome: Outcome) -> Iterator[str]:
    bad = outcome.bad
    for each in outcome.faulty:
        yield f"- **fault** {_code(each.file)}: {_code_free(one_line(each.fault))}\n"
    for result in bad[:_SHOWN]:
        yield _failure(result)
    if len(bad) > _SHOWN:
        yield f"- … and {len(bad) - _SHOWN} more\n"
    if bad or outcome.faulty:
        yield "\n"


def _failure(result: Result) -> str:
    where = f" on {result.planned.where}" if result.planned.where else ""
    line = (
        f"- **{result.status}** {_code(result.planned.id)}{where}: "
        f"{_code_free(one_line(result.reason, 500))}\n"
    )
    if not result.text.strip():
        return line
    text = result.text.strip()[-_LONGEST_TEXT:]
    body = "\n".join(f"  {_code_free(one_line(words))}" for words in text.splitlines())
    # A block of its own: within it an empty line ends nothing.
    head = "  <details><summary>text</summary>\n\n  <pre>"
    return f"{line}\n{head}\n{body}\n  </pre>\n\n  </details>\n\n"


def _notes(outcome: Outcome) -> Iterator[str]:
    yield from _list("Not for this card", (f"{c.file}: {c.gated}" for c in outcome.gated))
    yield from _list("Run whole", (f"{c.file}: {c.whole}" for c in outcome.whole))
    left = (f"{r.planned.id}: {', '.join(r.left)}" for r in outcome.results if r.left)
    yield from _list("Left changed", left)


def _list(head: str, lines: Iterable[str]) -> Iterator[str]:
    items = [f"- {_code_free(one_line(line))}\n" for line in dict.fromkeys(lines)]
    if items:
        yield f"### {head}\n\n{''.join(items[:_SHOWN])}\n"


def _code(text: str) -> str:
    return f"`{one_line(text).replace('`', chr(39))}`"


def _code_free(text: str) -> str:
    """Text that no part of is taken for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;")
