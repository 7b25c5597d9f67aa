"""What a rule found: where, and what to write instead."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Hit:
    """One place that breaks a rule, as the rule itself reports it.

    Attributes:
        node: the piece of the file; None is the file as a whole.
        message: what is wrong and what to write instead.
    """

    node: ast.AST | None
    message: str


@dataclass(frozen=True, order=True)
class Violation:
    """One place that breaks a rule, as it is printed.

    Attributes:
        path: the file.
        line: counted from 1.
        column: counted from 1, in characters.
        code: the rule's, such as OT101.
        message: what is wrong and what to write instead.
        last_line: the line on which the piece ends; a ``noqa`` counts on any of its lines.
    """

    path: Path
    line: int
    column: int
    code: str
    message: str
    last_line: int


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be read or parsed, with the reason in one line."""

    path: Path
    reason: str
