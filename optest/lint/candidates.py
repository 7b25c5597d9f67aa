"""Candidates of a file: what the tables hold that its loops hand to ``run_perftest``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from optest.lint.script import Script
from optest.lint.source import FUNCTIONS, Function


def candidates(script: Script) -> Iterator[ast.expr]:
    """Their expressions: of a dict as it is written, of items that are set, of what helpers get."""
    for call in script.calls(("run_perftest",), script.source.within()):
        for outer in script.source.ancestors(call):
            if isinstance(outer, FUNCTIONS):
                break
            if isinstance(outer, ast.For):
                for table in script.source.of(ast.Dict, outer.iter):
                    yield from table.values
                for name in script.source.of(ast.Name, outer.iter):
                    yield from _held(script, name, frozenset())


def _held(script: Script, name: ast.Name, seen: frozenset[ast.AST]) -> Iterator[ast.expr]:
    function = script.source.function_of(name)
    for value in script.values(name.id, name):
        if isinstance(value, ast.Dict):
            yield from value.values
    if function is None or function in seen:
        return
    yield from _items(script, name.id, function)
    for given in _given(script, name.id, function):
        if isinstance(given, ast.Dict):
            yield from given.values
        elif isinstance(given, ast.Name):
            yield from _held(script, given, seen | {function})


def _items(script: Script, name: str, function: Function) -> Iterator[ast.expr]:
    """What ``name[...] = value`` puts into a table of a function."""
    for assign in script.source.of(ast.Assign, function):
        for target in assign.targets:
            into = target.value if isinstance(target, ast.Subscript) else None
            if isinstance(into, ast.Name) and into.id == name:
                yield assign.value


def _given(script: Script, name: str, function: Function) -> Iterator[ast.expr]:
    """What the file's own calls of a function give for one of its parameters."""
    places = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if script.functions.get(function.name) is not function or name not in places:
        return
    for use in script.uses(function):
        call = script.source.parents[use]
        if isinstance(call, ast.Call) and call.func is use:
            yield from call.args[places.index(name) :][:1]
            yield from (word.value for word in call.keywords if word.arg == name)
