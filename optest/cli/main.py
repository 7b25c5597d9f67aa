"""``optest``: the command line; each sub-command is a thin module of its own."""

from __future__ import annotations

import typer

from optest.cli import streams
from optest.cli.ab import ab
from optest.cli.collect import collect
from optest.cli.compare import compare
from optest.cli.compile import CompileCommand, compile_
from optest.cli.doctor import doctor
from optest.cli.export import export
from optest.cli.lint import lint
from optest.cli.mutate import mutate
from optest.cli.new import new
from optest.cli.peaks import peaks
from optest.cli.rank import rank
from optest.cli.report import report
from optest.cli.run import run
from optest.cli.runs import runs
from optest.cli.speedup import speedup
from optest.cli.trace import trace
from optest.cli.words import CommandWithWords

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command(cls=CommandWithWords)(ab)
app.command(cls=CommandWithWords)(collect)
app.command()(compare)
app.command("compile", cls=CompileCommand)(compile_)
app.command()(doctor)
app.command()(export)
app.command()(lint)
app.command()(mutate)
app.command()(new)
app.command()(peaks)
app.command()(rank)
app.command()(report)
app.command(cls=CommandWithWords)(run)
app.command()(runs)
app.command()(speedup)
app.command(cls=CommandWithWords)(trace)


@app.callback()
def _root() -> None:
    """Which kernels are right, and how fast each is."""


def main() -> None:
    """Run the command line."""
    streams.ready()
    app(prog_name="optest")


if __name__ == "__main__":
    main()
