"""``optest compile``: every Triton kernel that op tests launch, lowered for cards not here."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optest.cli.words import CommandWithWords, words
from optest.errors import UsageError
from optest.log import logger

if TYPE_CHECKING:
    from optest.lowering.record import Record
    from optest.lowering.unit import Cache

_FAILED, _USAGE, _NOTHING, _INTERRUPTED = 1, 2, 5, 130
_TARGETS = ("gfx942", "gfx950", "gfx1250", "sm_90", "sm_100")
_SAVE, _LAST, _RECORD = "--save", "last", ".json"


class CompileCommand(CommandWithWords):
    """``--save`` may stand alone; what follows it is its value only where it names a .json."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Join ``--save`` with its value before the options are read."""
        out: list[str] = []
        for index, word in enumerate(args):
            if word == "--":
                out += args[index:]
                break
            if out and out[-1] == f"{_SAVE}=" and word.endswith(_RECORD):
                out[-1] += word
            else:
                out.append(f"{_SAVE}=" if word == _SAVE else word)
        return super().parse_args(ctx, out)


def compile_(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Op tests, or folders of them.", metavar="[PATH]...")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help=f"A card, once for each. Default: {' '.join(_TARGETS)}."),
    ] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke/--full", help="The SMOKE list, or the default sweep.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Kernels at a time; 0: one a core.", min=0)] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write everything as JSON.", metavar="FILE")
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(help="Keep a record, in the cache folder or in FILE.json.", metavar="[FILE]"),
    ] = None,
    diff: Annotated[
        str | None,
        typer.Option(help="What changed since a record: its file, or 'last'.", metavar="FILE"),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Believe nothing of the cache: collect and compile all.")
    ] = False,
) -> None:
    """Lower every Triton kernel that op tests launch, in every specialisation of their sweeps.

    No card is needed. Words after -- go to the op tests. Exit code 1 where a kernel does not lower,
    does not fit the card, or a case could not be followed; 5 where there was no case.
    """
    try:
        raise typer.Exit(
            _compile(
                paths or [Path("op_tests")], target, smoke, jobs, json_file, save, diff, fresh,
                words(context),
            )
        )  # fmt: skip
    except UsageError as error:
        logger.error("%s", error)
        raise typer.Exit(_USAGE) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


def _compile(  # noqa: PLR0913, PLR0917 - the options
    paths: list[Path],
    targets: list[str] | None,
    smoke: bool,
    jobs: int,
    json_file: Path | None,
    save: str | None,
    diff: str | None,
    fresh: bool,
    given: tuple[str, ...] | None,
) -> int:
    from optest.lowering import card, progress, record, run, tables
    from optest.lowering.unit import Cache
    from optest.sweep.files import op_tests

    cards = card.named(targets or _TARGETS)
    names = op_tests(paths, Path.cwd())
    cache = Cache()
    if fresh:
        cache.clear()
    before = record.load(_saved(cache, diff)) if diff is not None else None
    request = run.Request(
        [Path(n) for n in names], cards, given, smoke, jobs or os.cpu_count() or 1
    )
    with progress.chosen(sys.stderr) as shown:
        found = run.lower(request, cache, shown)
    sys.stdout.write(tables.kernels(found))
    if found.failed:
        sys.stdout.write("\n" + tables.failures(found))
    if before is not None:
        sys.stdout.write("\n" + tables.changes(before, found))
    _keep(found, cache, json_file, save)
    return _told(found)


def _told(found: Record) -> int:
    for words_ in found.gated:
        logger.info("gated: %s", words_)
    for words_ in found.notes:
        logger.warning("%s", words_)
    if found.remarks:
        logger.info(
            "%d times a test, outside its candidates, asked for a value not known and got 0; "
            "--json lists them",
            len(found.remarks),
        )
    for words_ in found.faults:
        logger.error("could not be followed: %s", words_)
    logger.info(
        "%d cases, %d kernels in their specialisations, %d compiled now, %d failed, %.1f s",
        found.cases, len(found.kernels), found.compiled, len(found.failed), found.seconds,
    )  # fmt: skip
    if found.failed or found.faults:
        return _FAILED
    if not found.cases and not found.gated:
        logger.error("there was no case to follow")
        return _NOTHING
    return 0


def _saved(cache: Cache, name: str) -> Path:
    """The file of ``--diff``.

    Raises:
        UsageError: ``last`` where nothing was saved.
    """
    if name != _LAST:
        return Path(name)
    kept = sorted(cache.runs.glob(f"*{_RECORD}"))
    if not kept:
        raise UsageError(f"--diff {_LAST}: nothing was saved yet with {_SAVE} in {cache.runs}")
    return kept[-1]


def _keep(found: Record, cache: Cache, json_file: Path | None, save: str | None) -> None:
    from optest.report import atomic

    if json_file is not None:
        atomic.write("--json", json_file, found.to_text())
    if save is not None:
        stamp = time.strftime("%Y%m%d-%H%M%S") + f"-{time.time_ns() % 10**9:09d}"
        path = Path(save) if save else cache.runs / f"{stamp}{_RECORD}"
        atomic.write(_SAVE, path, found.to_text())
        logger.info("kept as %s", path)
