"""``optest``: the command line; each sub-command is a thin module of its own."""

from __future__ import annotations

import typer

from optest.cli.lint import lint
from optest.cli.mutate import mutate
from optest.cli.new import new
from optest.cli.speedup import speedup

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(lint)
app.command()(mutate)
app.command()(new)
app.command()(speedup)


@app.callback()
def _root() -> None:
    """Which kernels are right, and how fast each is."""


def main() -> None:
    """Run the command line."""
    app(prog_name="optest")


if __name__ == "__main__":
    main()
