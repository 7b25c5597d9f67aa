"""``optest ab``: two revisions measured in turn, so that drift of the machine cancels."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optest.cli.compare import (
    Github,
    Json,
    Junit,
    Output,
    Threshold,
    limit_of,
    shown,
    written,
)
from optest.cli.sweep_options import (
    INTERRUPTED,
    USAGE,
    Arch,
    File,
    Function,
    Guards,
    Keep,
    MemoryLimit,
    Smoke,
    StoreUrl,
    Timeout,
    errors_are_words,
    request,
    store_at,
)
from optest.cli.words import words
from optest.errors import UsageError
from optest.log import logger

if TYPE_CHECKING:
    from optest.ab.outcome import Outcome
    from optest.ab.request import AbRequest
    from optest.compare.comparison import Comparison
    from optest.sweep.request import Request

_OK, _FAILED, _NOTHING_RAN = 0, 1, 5
_MOST_ROUNDS = 1000
_REVISION = "a commit, tag or branch, or WORKTREE for the files as they stand."


def ab(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    base: Annotated[str, typer.Argument(help=f"What was before: {_REVISION}", metavar="BASE")],
    head: Annotated[str, typer.Argument(help=f"What is now: {_REVISION}", metavar="HEAD")],
    paths: Annotated[
        list[str], typer.Argument(help="Op tests, or folders of them.", metavar="PATH")
    ],
    rounds: Annotated[
        int | None,
        typer.Option(help="How often each case runs on each side (12).", min=4, max=_MOST_ROUNDS),
    ] = None,
    build: Annotated[
        str | None,
        typer.Option(help="Run at the top of each worktree first.", metavar="COMMAND"),
    ] = None,
    smoke: Smoke = False,
    guards: Guards = None,
    keep: Keep = None,
    function: Function = None,
    file: File = None,
    arch: Arch = None,
    timeout: Timeout = None,
    memory_limit: MemoryLimit = None,
    threshold: Threshold = "5",
    output: Output = None,
    json: Json = None,
    junit: Junit = None,
    github: Github = False,
    store: StoreUrl = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="The page only.")] = False,
) -> None:
    """Measure two revisions in turn, each in a worktree of its own; compare them.

    What follows -- goes to every op test. Exit code 1: something is newly wrong, or slower beyond
    the threshold. 2: usage. 5: no case ran. 130: interrupted.
    """
    with errors_are_words():
        limit = limit_of(threshold)
        sweep = request(
            paths,
            memory_limit,
            None,
            words=words(context),
            smoke=smoke or None,
            guards=guards,
            keep=keep,
            function=function,
            file=file,
            arch=arch,
            timeout_s=timeout,
        )
        asked = _asked(base, head, sweep, build, rounds)
        outcome = _measured(asked, store, quiet=quiet)
        made = _comparison(outcome, limit)
        _tell(outcome, quiet=quiet)
        code = _exit_code(outcome, made)
        if made is not None:
            written(made, output, json, junit)
            told = shown(made, page=output is None, github=github)
            code = code if told else code or _FAILED
    raise typer.Exit(code)


def _asked(
    base: str, head: str, sweep: Request, build: str | None, rounds: int | None
) -> AbRequest:
    from optest.ab.request import ROUNDS, AbRequest

    try:
        command = tuple(shlex.split(build)) if build else ()
    except ValueError as error:
        raise UsageError(f"--build {build!r}: {error}") from None
    settled = sweep.settled()
    if settled.mode == "check":
        raise UsageError("OPTEST_MODE=check: nothing is timed in it. Unset it, or use optest run")
    return AbRequest(base, head, command, rounds or ROUNDS, settled)


def _measured(asked: AbRequest, url: str | None, *, quiet: bool) -> Outcome:
    from optest.ab.run import Means, measured
    from optest.store import Store

    def tell(line: str) -> None:
        if not quiet:
            sys.stderr.write(f"optest: {line}\n")

    with Store.open(store_at(url)) as store:
        return measured(asked, Means(Path.cwd(), store, tell))


def _comparison(outcome: Outcome, threshold: float) -> Comparison | None:
    """None where nothing was measured."""
    from optest.ab.comparing import compared

    return compared(outcome, threshold) if any(outcome.results) else None


def _tell(outcome: Outcome, *, quiet: bool) -> None:
    """What the page does not say, on standard error."""
    from optest.line import one_line
    from optest.sweep.words import after, duration

    for each in outcome.faulty:
        logger.error("%s: %s", one_line(each.file), one_line(after(each.fault, each.file)))
    if outcome.fault:
        logger.error("stopped: %s", one_line(outcome.fault))
    if outcome.interrupted:
        logger.error("interrupted after %d whole rounds", outcome.rounds)
    if quiet:
        return
    for each in outcome.gated:
        logger.info("not for this card: %s: %s", one_line(each.file), one_line(each.gated))
    if outcome.elsewhere:
        logger.info("nothing was run, since this is %s", outcome.elsewhere)
    if any(outcome.runs):
        runs = " and ".join(outcome.runs)
        logger.info("%d rounds in %s; runs %s", outcome.rounds, duration(outcome.seconds), runs)


def _exit_code(outcome: Outcome, made: Comparison | None) -> int:
    if outcome.interrupted:
        return INTERRUPTED
    if made is None and outcome.faulty:
        return USAGE
    if outcome.fault or outcome.faulty:
        return _FAILED
    if made is not None:
        return made.exit_code
    return _OK if outcome.gated or outcome.elsewhere else _NOTHING_RAN
