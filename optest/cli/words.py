"""A command whose words after ``--`` are not its own, and an option whose value may be left out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from typer.core import TyperCommand

if TYPE_CHECKING:
    import typer

_KEY = "optest.words"
_RESUME = "--resume"


class CommandWithWords(TyperCommand):
    """Keeps what follows ``--`` for the op tests."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Take the words away before the options are read."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_KEY] = tuple(args[at + 1 :]) if at < len(args) else None
        return super().parse_args(ctx, with_value(args[:at]))


def words(ctx: typer.Context) -> tuple[str, ...] | None:
    """What followed ``--``; None where there was none."""
    found: tuple[str, ...] | None = ctx.meta.get(_KEY)
    return found


def with_value(args: list[str]) -> list[str]:
    """``--resume`` with what follows it as its value, unless that is an option or a path here."""
    out: list[str] = []
    for word in args:
        a_path = os.path.exists(word)  # noqa: PTH110 - Path's raises where a name is too long
        if out and out[-1] == _RESUME and not word.startswith("-") and not a_path:
            out[-1] = f"{_RESUME}={word}"
        else:
            out.append(word)
    return [f"{_RESUME}=" if word == _RESUME else word for word in out]
