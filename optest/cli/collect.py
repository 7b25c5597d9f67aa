"""``optest collect``: the cases of op tests, none of them run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optest.cli.sweep_options import (
    Address,
    Arch,
    ExecutorName,
    File,
    Function,
    Keep,
    Paths,
    Smoke,
    Timeout,
    errors_are_words,
    files_of,
    prints,
    request,
)
from optest.cli.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from optest.store.records import Planned
    from optest.sweep.executor import Collection
    from optest.sweep.request import Request

_FAILED, _NOTHING = 1, 5


def collect(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    paths: Paths = None,
    smoke: Smoke = False,
    keep: Keep = None,
    function: Function = None,
    file: File = None,
    arch: Arch = None,
    timeout: Timeout = None,
    executor: ExecutorName = None,
    address: Address = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, arguments and table in it.")
    ] = False,
) -> None:
    """Print the id of each case that optest run would run, one a line.

    Exit code 1 where a file cannot be run, 5 where there is no case.
    """
    with errors_are_words():
        asked = request(
            paths,
            None,
            None,
            words=words(context),
            smoke=smoke or None,
            keep=keep,
            function=function,
            file=file,
            arch=arch,
            timeout_s=timeout,
            executor=executor,
            address=address,
        ).settled()
        found, units = _collected(asked)
        printed = prints(_lines(units, as_json=as_json))
        code = _say(found, units)
        code = code if printed else code or _FAILED
    raise typer.Exit(code)


def _collected(asked: Request) -> tuple[list[Collection], list[Planned]]:
    from optest.sweep import executors
    from optest.sweep.plan import in_table_order
    from optest.sweep.signals import Stop

    files = files_of(asked)
    with Stop() as stop, executors.made(asked, Path.cwd()) as executor:
        stop.listen(executor.stop, raises=True)
        found = executor.collect(files, lambda _: None)
        gfx = executor.place().gfx if asked.arch else ""
    return found, asked.filters.cases(in_table_order(found), gfx)


def _lines(units: Iterable[Planned], *, as_json: bool) -> Iterator[str]:
    for unit in units:
        if as_json:
            yield json.dumps(_record(unit)) + "\n"
        elif not unit.whole:
            yield unit.id + "\n"


def _record(unit: Planned) -> dict[str, object]:
    record: dict[str, object] = {
        "id": unit.id,
        "file": unit.file,
        "function": unit.function,
        "arguments": unit.arguments,
        "table": unit.table,
        "where": unit.where,
        "whole": unit.whole,
    }
    return record


def _say(found: Iterable[Collection], units: Iterable[Planned]) -> int:
    """What there is to say of files, on standard error; the exit code."""
    from optest.line import one_line
    from optest.sweep.words import after

    found = list(found)
    for each in found:
        where = f"{each.file} on {each.where}" if each.where else each.file
        said = {"FAULT": each.fault, "not for this card": each.gated, "run whole": each.whole}
        for what, why in said.items():
            if why:
                sys.stderr.write(f"{what}: {one_line(where)}: {one_line(after(why, each.file))}\n")
    if any(each.fault for each in found):
        return _FAILED
    if not any(True for _ in units) and not any(each.gated for each in found):
        sys.stderr.write("optest: there is no case\n")
        return _NOTHING
    return 0
