"""Loops over candidates: which calls run once for each of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from optest.lint.script import Script
from optest.lint.source import FUNCTIONS

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# What is plainly no dict, where a loop iterates it.
_SEQUENCES = (ast.List, ast.Tuple, ast.Set, ast.Constant, *_COMPREHENSIONS)
_COUNTING = {"range", "zip", "enumerate", "product", "sorted", "reversed"}
_VIEWS = {"items", "keys", "values"}


def in_dict_loop(script: Script, node: ast.AST, seen: frozenset[str] = frozenset()) -> bool:
    """Whether ``node`` runs in a loop over candidates; of a helper, whether all its calls do.

    A loop over something that the file does not show counts where the call uses its variable.
    """
    for outer in script.source.ancestors(node):
        if any(_is_over_candidates(script, *loop, node) for loop in _loops(outer)):
            return True
        if isinstance(outer, FUNCTIONS) and outer.name in script.functions:
            if outer in script.tests or outer.name in seen:
                return False
            uses = script.uses(outer)
            within = seen | {outer.name}
            return bool(uses) and all(in_dict_loop(script, use, within) for use in uses)
    return False


def candidate_loop(script: Script, call: ast.Call) -> ast.For | None:
    """The ``for`` over candidates around a call, in the same function."""
    for outer in script.source.ancestors(call):
        if isinstance(outer, FUNCTIONS):
            return None
        if isinstance(outer, ast.For):
            if _is_over_candidates(script, outer.target, outer.iter, call):
                return outer
            if _uses(script, outer.target, call.args[:1]):
                return outer
    return None


def targets(script: Script, loop: ast.For) -> set[str]:
    """Names that a loop binds."""
    return {node.id for node in script.source.of(ast.Name, loop.target)}


def _loops(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Target and iterated of the loops that a node is."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        yield node.target, node.iter
    elif isinstance(node, _COMPREHENSIONS):
        yield from ((generator.target, generator.iter) for generator in node.generators)


def _is_over_candidates(
    script: Script, target: ast.expr, iterated: ast.expr, node: ast.AST
) -> bool:
    if _is_of_dict(script, iterated):
        return True
    call = node if isinstance(node, ast.Call) else script.source.parents[node]
    given = [*call.args, call.func] if isinstance(call, ast.Call) else []
    return _is_unseen(script, iterated) and _uses(script, target, given)


def _uses(script: Script, target: ast.expr, given: list[ast.expr]) -> bool:
    bound = {node.id for node in script.source.of(ast.Name, target)}
    return bool(bound & {n.id for each in given for n in script.source.of(ast.Name, each)})


def _is_of_dict(script: Script, iterated: ast.expr) -> bool:
    for node in script.source.within(iterated):
        if isinstance(node, ast.Attribute) and node.attr in _VIEWS:
            return True
        if isinstance(node, ast.Name) and any(_is_dict(v) for v in script.values(node.id, node)):
            return True
    return False


def _is_unseen(script: Script, iterated: ast.expr) -> bool:
    """Whether the file does not show what is iterated: a parameter, or what a function gives."""
    for value in script.resolved(iterated):
        called = value.func if isinstance(value, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else ""
        name = called.id if isinstance(called, ast.Name) else name
        if isinstance(value, _SEQUENCES) or name in _COUNTING:
            return False
    return True


def _is_dict(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "dict"
    return isinstance(value, (ast.Dict, ast.DictComp))
