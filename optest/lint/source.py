"""One file, parsed: its syntax tree in the order of the text, parents, comments."""

from __future__ import annotations

import ast
import bisect
import io
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from optest.errors import UsageError

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Python shares one object of these among all nodes: they have no place in the file.
_SHARED = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
_Node = TypeVar("_Node", bound=ast.AST)


class Source:
    """A parsed file. Nodes are numbered in the order of the text, so a subtree is a slice."""

    def __init__(self, path: Path, text: str, tree: ast.Module) -> None:
        self.path, self.text, self.tree = path, text, tree
        self.lines = text.splitlines()
        self.parents: dict[ast.AST, ast.AST] = {}
        self._nodes: list[ast.AST] = []
        self._span: dict[ast.AST, tuple[int, int]] = {}
        self._kinds: dict[type[ast.AST], list[int]] = {}
        self._number()

    def within(self, node: ast.AST | None = None) -> list[ast.AST]:
        """The node and all beneath it, in the order of the text; all nodes where it is None."""
        first, end = self._span[node or self.tree]
        return self._nodes[first:end]

    def of(self, kind: type[_Node], within: ast.AST | None = None) -> list[_Node]:
        """Nodes of one kind, in the order of the text."""
        numbers = self._kinds.get(kind, [])
        first, end = self._span[within or self.tree]
        chosen = numbers[bisect.bisect_left(numbers, first) : bisect.bisect_left(numbers, end)]
        return [self._nodes[number] for number in chosen]  # type: ignore[misc]

    def comments(self) -> dict[int, str]:
        """Line -> its comment, with the ``#``."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}

    def position(self, node: ast.AST) -> int:
        """The number of a node in the order of the text."""
        return self._span[node][0]

    def contains(self, outer: ast.AST, inner: ast.AST) -> bool:
        """Whether ``inner`` is ``outer`` or stands beneath it."""
        first, end = self._span[outer]
        return first <= self._span[inner][0] < end

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parent, grandparent, up to the module."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost ``def`` around a node; None at module level. Lambdas are passed."""
        around = (outer for outer in self.ancestors(node) if isinstance(outer, FUNCTIONS))
        return next(around, None)

    def at(self, node: ast.AST | None) -> tuple[int, int, int]:
        """Line, column (both from 1, in characters) and last line; ``def`` counts as its header."""
        if node is None:  # the file: its first statement, often a text of several lines
            first = next(iter(self.tree.body), None)
            return 1, 1, getattr(first, "end_lineno", 1)
        line, offset = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        last = getattr(node, "end_lineno", line)
        body = getattr(node, "body", None)
        if isinstance(body, list) and body:
            last = max(line, body[0].lineno - 1)
        before = self.lines[line - 1].encode()[:offset] if line <= len(self.lines) else b""
        return line, len(before.decode(errors="replace")) + 1, last

    def _number(self) -> None:
        # Not recursive: a long sum of strings nests deeper than Python's stack allows.
        waiting: list[ast.AST | None] = [self.tree]
        opened: list[ast.AST] = []
        while waiting:
            node = waiting.pop()
            if node is None:
                done = opened.pop()
                self._span[done] = (self._span[done][0], len(self._nodes))
                continue
            self._span[node] = (len(self._nodes), 0)
            self._kinds.setdefault(type(node), []).append(len(self._nodes))
            self._nodes.append(node)
            children = _children(node)
            if not children:
                self._span[node] = (len(self._nodes) - 1, len(self._nodes))
                continue
            opened.append(node)
            waiting.append(None)
            for child in children:
                self.parents[child] = node
            waiting.extend(reversed(children))


def read(path: Path) -> Source:
    """Read and parse a file in the encoding that it declares.

    Raises:
        UsageError: it cannot be read or is no Python; the message is one line and names the place.
    """
    if path.exists() and not path.is_file():
        raise UsageError("cannot be read: it is no regular file")
    try:
        with tokenize.open(path) as stream:
            text = stream.read()
    except (OSError, SyntaxError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition(" for '")[0]
        raise UsageError(f"cannot be read: {reason}") from None
    return parse(path, text)


def parse(path: Path, text: str) -> Source:
    """Parse ``text``; ``path`` is what it is reported under.

    Raises:
        UsageError: it is no Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the parser says of escapes is ruff's matter
            return Source(path, text, ast.parse(text))
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        raise UsageError(f"is no Python that this interpreter knows: {where}{error.msg}") from None
    except (ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
        reason = str(error) or "it is nested too deeply"
        raise UsageError(f"is no Python that this interpreter knows: {reason}") from None


def _children(node: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return [each for each in found if not isinstance(each, _SHARED)]
