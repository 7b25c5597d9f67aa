"""``optest doctor``: can timings of this machine be trusted?"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from optest.cli.sweep_options import errors_are_words, prints

_FAILED = 1


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of the table.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 1 where something is bad.")
    ] = False,
) -> None:
    """Say what there is on this machine, what will make timings unreliable, and how to mend it."""
    with errors_are_words():
        from optest.doctor.examine import examine
        from optest.doctor.table import markdown

        items = examine()
        text = json.dumps([asdict(item) for item in items], indent=1) + "\n"
        printed = prints([text if as_json else markdown(items)])
    bad = strict and any(item.severity == "bad" for item in items)
    if bad or not printed:
        raise typer.Exit(_FAILED)
