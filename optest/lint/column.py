"""Columns that a row is given: ``ret[f"{name} us"] = us`` and ``{"gfx": get_gfx()}``."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass

# Words of a heading that say nothing about which candidate or which quantity it is.
_FILLERS = {"avg", "average", "median", "mean", "time", "latency"}

SETTING: tuple[type[ast.AST], ...] = (ast.Assign, ast.Dict, ast.Call)  # what may set columns
_NEITHER = None, None


@dataclass(frozen=True)
class Column:
    """One column: where it is set, its words, and the value, where that is known.

    Attributes:
        node: where it is set.
        words: of the heading, lower case; what is filled in, as ``name`` in braces, counts as the
            words of its expression; ``TB/s`` is ``tbs``.
        text: the heading as written, with ``{…}`` for what is filled in.
        value: what is stored.
    """

    node: ast.AST
    words: tuple[str, ...]
    text: str
    value: ast.expr

    def is_of(self, word: str) -> bool:
        """Whether the heading names that quantity: ``us``, ``tflops``, ``tbs``."""
        return word in self.words

    def rest(self, word: str) -> Counter[str]:
        """What the heading says beside the quantity: the candidate."""
        return Counter(w for w in self.words if w != word and w not in _FILLERS)


def heading(node: ast.expr | None) -> str | None:
    """A text that is a heading, with ``{…}`` for what is filled in; None where it is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_part(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _sum(node)
    form, filled = _form(node)
    if form is None or filled is None:
        return None
    return re.sub(r"%[sd]|\{\}", lambda _: f"{{{ast.unparse(filled)}}}", form)


def _sum(node: ast.BinOp) -> str | None:
    sides = [(heading(side), side) for side in (node.left, node.right)]
    if all(text is None for text, _ in sides):
        return None
    return "".join(f"{{{ast.unparse(n)}}}" if text is None else text for text, n in sides)


def _form(node: ast.expr | None) -> tuple[str | None, ast.expr | None]:
    """``"%s us" % name`` and ``"{} us".format(name)``: the form and what fills it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return heading(node.left), node.right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        return (heading(node.func.value), node.args[0]) if node.func.attr == "format" else _NEITHER
    return _NEITHER


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return f"{{{ast.unparse(part.value)}}}"
    return heading(part) or ""


def set_by(node: ast.AST) -> list[Column]:
    """Columns that a node sets: a store by a text, a dict with such keys, ``dict(us=us)``."""
    pairs: list[tuple[ast.AST, str | None, ast.expr]] = []
    if isinstance(node, ast.Assign):
        stores = [target for target in node.targets if isinstance(target, ast.Subscript)]
        pairs = [(target, heading(target.slice), node.value) for target in stores]
    elif isinstance(node, ast.Dict):
        keys = zip(node.keys, node.values, strict=True)
        pairs = [(key, heading(key), value) for key, value in keys if key is not None]
    elif isinstance(node, ast.Call) and _makes_columns(node.func):
        pairs = [(word.value, word.arg, word.value) for word in node.keywords]
    return [
        Column(where, words_of(text), text, value)
        for where, text, value in pairs
        if text is not None
    ]


def _makes_columns(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id == "dict"
    return isinstance(function, ast.Attribute) and function.attr in ("update", "assign")


def words_of(text: str) -> tuple[str, ...]:
    """The words of a heading, lower case; ``TB/s`` is one."""
    plain = re.sub(r"\b(tb|gb)\s*(/|per)\s*s(ec)?\b", r"\1s", text.lower())
    return tuple(word for word in re.split(r"[^a-z0-9]+", plain) if word)
