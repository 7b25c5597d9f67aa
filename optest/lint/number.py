"""Numbers that stand in a file: literals, what is computed from them, names and tables of them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from optest.lint.script import Script

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_INFINITE = {"math.inf", "torch.inf", "numpy.inf"}
_LARGEST_EXPONENT = 1024


def numbers(script: Script, node: ast.expr | None, depth: int = 4) -> list[float]:
    """Every number that an expression may be; empty where it cannot be told.

    ``RTOL[dtype]`` may be any value of the table; ``a if x else b`` either.
    """
    if node is None or depth == 0:
        return []
    if isinstance(node, ast.Constant):
        return _literal(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [-value for value in numbers(script, node.operand, depth)]
    if isinstance(node, ast.BinOp):
        return _computed(script, node, depth)
    if isinstance(node, (ast.IfExp, ast.Subscript, ast.Name)):
        return [n for each in _either(script, node) for n in numbers(script, each, depth - 1)]
    return [float("inf")] if _infinite(script, node) else []


def _either(script: Script, node: ast.IfExp | ast.Subscript | ast.Name) -> list[ast.expr]:
    """What an expression may stand for."""
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.Name):
        return script.values(node.id, node)
    found: list[ast.expr] = []
    for value in script.resolved(node.value):
        if isinstance(value, ast.Dict):
            found += value.values
        elif isinstance(value, (ast.List, ast.Tuple)):
            found += value.elts
    return found


def _literal(value: object) -> list[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return []
    try:
        return [float(value)]
    except OverflowError:
        return [float("inf")]


def _computed(script: Script, node: ast.BinOp, depth: int) -> list[float]:
    operation = _OPERATIONS.get(type(node.op))
    if operation is None:
        return []
    out = []
    for left in numbers(script, node.left, depth - 1):
        for right in numbers(script, node.right, depth - 1):
            if isinstance(node.op, ast.Pow) and abs(right) > _LARGEST_EXPONENT:
                continue
            try:
                value = operation(left, right)
            except (ArithmeticError, ValueError):
                continue
            out += [value] if isinstance(value, float) else []
    return out


def _infinite(script: Script, node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float":
        words = [each.value for each in node.args if isinstance(each, ast.Constant)]
        return words in (["inf"], ["Inf"], ["infinity"])
    return bool(script.names.origins(node) & _INFINITE)
