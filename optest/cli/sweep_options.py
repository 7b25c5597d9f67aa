"""What ``optest run`` shares with other sub-commands."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optest.cli.sizes import nbytes
from optest.errors import OptestError, UsageError
from optest.log import logger, once

if TYPE_CHECKING:
    from typing import Any

    from optest.sweep.request import Request

USAGE, INTERRUPTED = 2, 130
_GUARDS = ("off", "cheap", "full")

Paths = Annotated[
    list[str] | None, typer.Argument(help="Op tests, or folders of them.", metavar="PATH...")
]
Smoke = Annotated[
    bool, typer.Option("--smoke", help="Each script's SMOKE list, not its default sweep.")
]
Guards = Annotated[str | None, typer.Option(help="Around each candidate: off, cheap or full.")]
Keep = Annotated[
    str | None, typer.Option("-k", help="Only cases whose id this matches; * and ? are wild.")
]
Function = Annotated[str | None, typer.Option(help="Only this test function; * and ? are wild.")]
File = Annotated[str | None, typer.Option(help="Only op tests of this name; * and ? are wild.")]
Arch = Annotated[str | None, typer.Option(help="Only where get_gfx() is this.")]
Timeout = Annotated[
    float | None, typer.Option(help="Seconds that a case may take (600).", min=0.001, max=1e6)
]
MemoryLimit = Annotated[
    str | None, typer.Option(help="Memory that a case may hold, as 4GiB.", metavar="SIZE")
]
ExecutorName = Annotated[str | None, typer.Option("--executor", help="local or ray.")]
Address = Annotated[str | None, typer.Option(help="Of a Ray cluster.")]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="sqlite:///PATH or postgresql+psycopg://… (a file in .optest/ here).",
        metavar="URL",
    ),
]


@contextlib.contextmanager
def errors_are_words() -> Iterator[None]:
    """A user's mistake ends in one message and exit code 2, Ctrl-C in 130."""
    try:
        yield
    except OptestError as error:
        for line in str(error).splitlines():
            logger.error("%s", line)
        raise typer.Exit(USAGE) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def request(
    paths: list[str] | None,
    memory: str | None,
    output: str | None,
    **said: Any,  # noqa: ANN401
) -> Request:
    """What was asked for, looked at as far as that can be done before anything starts.

    Raises:
        UsageError: an option holds what it cannot hold.
        SettingError: a variable does.
    """
    from optest import settings
    from optest.sweep import executors
    from optest.sweep.files import name_of
    from optest.sweep.request import Request

    for warning in settings.validate():
        once(warning)
    for name in ("OPTEST_ONLY", "OPTEST_EVENTS"):
        if name in settings.given():
            raise UsageError(f"{name} is set: it is for a single script. Unset it and use -k.")
    here = Path.cwd()
    if "" in (paths or ()):
        raise UsageError("'': expected the path of an op test or a folder (an unset variable?)")
    made = Request(
        paths=tuple(name_of(here / path, here) for path in paths or ()),
        memory_bytes=nbytes("--memory-limit", memory) if memory is not None else None,
        output_bytes=nbytes("--output-limit", output) if output is not None else None,
        **said,
    )
    if made.smoke and made.words:
        raise UsageError(f"--smoke, and -- {' '.join(made.words)}: expected one of the two")
    if made.guards not in (None, *_GUARDS):
        raise UsageError(f"--guards {made.guards!r}: expected one of {', '.join(_GUARDS)}")
    if made.arch is not None:
        made.filters.check_arch()
    executors.check(made)
    return made


def files_of(asked: Request) -> list[str]:
    """The op tests that it is about.

    Raises:
        UsageError: no path, one that is not there, or ``--file`` that matches none.
    """
    from optest.sweep.files import op_tests

    if not asked.paths:
        raise UsageError("no path is given: expected op tests or folders, such as op_tests")
    return asked.filters.files(op_tests(map(Path, asked.paths), Path.cwd()))


def prints(lines: Iterable[str]) -> bool:
    """Write to standard output; whether it took all of it. Where it does not, that is said."""
    try:
        for line in lines:
            sys.stdout.write(line)
        sys.stdout.flush()
    except BrokenPipeError:  # who read it has seen enough
        _stop_writing()
    except (OSError, UnicodeError) as error:
        _stop_writing()
        logger.error("standard output: %s", getattr(error, "strerror", None) or error)
        return False
    return True


def _stop_writing() -> None:
    # What is still buffered would be tried again, and fail again, at exit.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def store_at(url: str | None) -> str:
    """The store that was named; where none was, the one in ``.optest/`` of the working folder."""
    from optest.store import default_url

    return default_url(Path.cwd()) if url is None else url
